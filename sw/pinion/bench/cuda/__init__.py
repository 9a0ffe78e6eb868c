"""Compiled functions on a GPU, beside their bounds."""
