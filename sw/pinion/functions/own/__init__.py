"""User-defined functions: the decorator, the blocks that it describes, and returned values."""
