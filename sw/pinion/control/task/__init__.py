"""Tasks: what a core's formats are judged by."""
