"""A graph as instructions for processors and GPUs: order, registers, text."""
