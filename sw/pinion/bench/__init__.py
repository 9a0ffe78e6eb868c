"""Measurements of Pinion's own code: one package per experiment, with data, tables and pages.

Only the command line imports this (``pinion bench``); no user-facing function needs it.
"""
