"""Text and chats to ids and back: tokenizers, chat templates, control tokens."""
