"""myserve-ui: serve a causal language model from your own machine and see what making it cheaper costs."""

__version__ = "0.1.0"
