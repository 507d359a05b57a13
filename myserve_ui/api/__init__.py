"""The OpenAI door: HTTP in, ChatRequest to the service, JSON or server-sent events out."""
