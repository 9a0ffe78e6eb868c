"""Readers of URDF, MJCF and Pinocchio models; all return the canonical model."""
