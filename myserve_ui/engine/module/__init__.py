"""The transformers module as it is called: its masks, its rotary positions, its errors, and the checks at load."""
