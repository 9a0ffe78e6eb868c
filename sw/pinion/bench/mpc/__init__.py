"""Tracking of a motion in closed loop with gradients from every backend."""
