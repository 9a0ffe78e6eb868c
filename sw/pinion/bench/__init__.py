"""Measurements of Pinion's own code: a folder per experiment, with data, tables and pages.

Only the command line imports this (``pinion bench``); no user-facing function needs it.
"""
