"""Compiled functions on one CPU core, compared with their bounds and other implementations."""
