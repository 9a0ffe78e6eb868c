"""What we measure of our own code: a folder an experiment, with its figures, tables and pages.

Only the command line imports this (``pinion bench``); nothing that a user calls needs it.
"""
