"""Linear layers with weights of their own form, each with one `LinearKernel` interface."""
