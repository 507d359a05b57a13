"""Chats: what /v1/chat/completions takes and answers."""
