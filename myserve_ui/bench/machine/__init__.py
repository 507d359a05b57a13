"""This machine: what it is, how fast it reads and multiplies."""
