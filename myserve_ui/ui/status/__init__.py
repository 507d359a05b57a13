"""The Status tab."""
