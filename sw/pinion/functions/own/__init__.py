"""Your own functions: the decorator, the blocks it describes, and what a function returns."""
