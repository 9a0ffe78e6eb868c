"""The gradient of forward dynamics, shared between host and GPU."""
