"""Workloads measured on Pullback, real JAX, NumPy and PyTorch: `make bench`."""
