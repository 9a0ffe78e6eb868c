"""Survey of real files: every URDF of a folder, opened and compared with Pinocchio."""
