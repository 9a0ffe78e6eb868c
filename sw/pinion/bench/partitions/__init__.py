"""Partitions of the gradient of forward dynamics between host and GPU."""
