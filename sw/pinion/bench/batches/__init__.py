"""Batches on every backend, and in publications."""
