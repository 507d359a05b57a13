"""Continuous batching over a transformers module that is called as it stands. Synchronous: no thread, no HTTP."""
