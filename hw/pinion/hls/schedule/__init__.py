"""Scheduling and binding of unit operations, and a checker that shares no code with them."""
