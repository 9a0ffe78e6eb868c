"""Errors of the compiler."""

from __future__ import annotations


class ProgramError(ValueError):
    """A function cannot be compiled for a processor; the message says why."""


class WordsError(ProgramError):
    """A program needs more words of memory than a lane has."""
