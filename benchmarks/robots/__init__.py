"""Survey of published robot files: every URDF in a folder, compared with Pinocchio."""
