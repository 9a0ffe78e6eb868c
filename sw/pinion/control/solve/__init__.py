"""Problems of optimal control, and their solvers."""
