"""Figures of README and docs/results.md: measured by commands, kept as JSON, written by a program."""
