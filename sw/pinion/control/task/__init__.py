"""Tasks, for which a core's formats are chosen."""
