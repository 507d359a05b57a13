"""Continuous batching over a transformers module, whose layers it does not touch. Synchronous: no HTTP, no Gradio."""
