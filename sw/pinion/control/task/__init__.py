"""Tracking tasks, for which a core's number formats are chosen."""
