"""The runner whose cache is in blocks, for CUDA: tables, kernels, recorded steps."""
