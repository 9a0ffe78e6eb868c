"""Compiled functions on a GPU, compared with their bounds."""
