"""The Chat tab and what belongs to it."""
