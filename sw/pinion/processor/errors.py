"""Errors of the compiler for the dynamics processor."""

from __future__ import annotations


class ProgramError(ValueError):
    """Error for a function that cannot be compiled for a processor; the message says why."""


class WordsError(ProgramError):
    """Error for a program that needs more words of memory than a lane has."""
