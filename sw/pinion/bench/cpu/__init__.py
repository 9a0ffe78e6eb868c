"""Compiled functions on one core of a processor, what bounds them, and others' code."""
