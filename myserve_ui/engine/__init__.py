"""Continuous batching over an unmodified transformers module. Synchronous: no thread, no HTTP, no Gradio."""
