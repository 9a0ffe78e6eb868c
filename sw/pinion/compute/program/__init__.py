"""A graph as instructions for CPUs and GPUs: order, registers, text."""
