"""Figures for README and docs/results.md, recorded as JSON and written into the pages."""
