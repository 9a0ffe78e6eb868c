"""Motions, controllers that track them, and simulated robots."""
