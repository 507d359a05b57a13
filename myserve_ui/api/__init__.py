"""The OpenAI door: HTTP in, HTTP out."""
