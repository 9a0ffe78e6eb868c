"""Survey of real files: every URDF in a folder, opened and compared with Pinocchio."""
