"""Cores: every function of the iiwa14 and its errors."""
