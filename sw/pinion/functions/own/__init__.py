"""Your own functions: the decorator, the blocks it describes, and the values a function returns."""
