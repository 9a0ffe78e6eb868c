"""Cores for every function of the iiwa14, and their errors."""
