"""Compiled functions on a GPU, and what bounds them."""
