"""Functions inside PyTorch and JAX, with their gradients."""
