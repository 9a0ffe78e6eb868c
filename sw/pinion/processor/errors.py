"""Errors of the compiler."""

from __future__ import annotations


class ProgramError(ValueError):
    """A function has no program on a processor; the message says what is missing."""


class WordsError(ProgramError):
    """A program needs more words of memory than a lane has."""
