"""Figures of README and docs/results.md: kept as JSON by commands, written by a program."""
