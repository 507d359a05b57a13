"""From logits to a token: adjustments, draws, log-probabilities."""
