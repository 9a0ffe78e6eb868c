"""Cycle, unit and register of every operation; the checker shares no code with the search."""
