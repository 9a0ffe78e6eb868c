"""A motion tracked in closed loop with gradients from every backend."""
