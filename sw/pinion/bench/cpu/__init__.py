"""Compiled functions on one CPU core, beside their bounds and others' code."""
