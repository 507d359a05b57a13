"""Teacher-forced scoring through the engines that serve users: perplexity, fidelity, evidence token by token."""
