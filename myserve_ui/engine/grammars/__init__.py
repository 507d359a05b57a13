"""Grammars: compiled, walked token by token, laid over logits as masks."""
