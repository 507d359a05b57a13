"""Everything that knows transformers, bitsandbytes, accelerate and GGUF."""
