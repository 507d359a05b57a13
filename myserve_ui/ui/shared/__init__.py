"""What pages of every tab are drawn with."""
