"""GGUF files and their conversion, which is kept."""
