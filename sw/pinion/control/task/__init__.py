"""Tasks, by which a core's formats are chosen."""
