"""Load, latency and limits: drives any OpenAI-compatible server, and says how far it is from the hardware's limit."""
