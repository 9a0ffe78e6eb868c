"""Functions with gradients for PyTorch and JAX."""
