"""Inputs that nobody wrote, by kind: each module here but this frame has one kind, and says what must never happen."""
