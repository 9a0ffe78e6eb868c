"""How real files fare: every URDF of a folder opened, compared with Pinocchio, some built."""
