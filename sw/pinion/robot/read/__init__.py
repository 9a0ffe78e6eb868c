"""Robots from files and from other libraries: URDF, MJCF, Pinocchio, to one canonical model."""
