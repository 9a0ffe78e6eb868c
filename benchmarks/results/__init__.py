"""Figures of README and docs/results.md, recorded as JSON by commands and written into pages."""
