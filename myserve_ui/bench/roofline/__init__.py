"""The least time a step can take, here or on any device."""
