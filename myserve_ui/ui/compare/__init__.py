"""The Compare tab: two precisions on one prompt, and over a text."""
