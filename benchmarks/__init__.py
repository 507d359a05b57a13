"""The developers' benchmark: goals for the default model, rivals beside it, the CUDA path. Not part of the package."""
