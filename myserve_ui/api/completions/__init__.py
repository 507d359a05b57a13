"""Text that goes on: /v1/completions, and the plain routes /generate and /stream."""
