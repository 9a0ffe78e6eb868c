"""Mutation testing: one small change of a module at a time, and the tests that should fail."""
