"""Errors that end a campaign."""

from __future__ import annotations


class CampaignError(ValueError):
    """A campaign cannot begin or continue; the message gives the reason and advice."""


class ChunksError(CampaignError):
    """Too many chunks failed; the message quotes the last failure."""


class ClusterError(RuntimeError):
    """The scheduler or its workers cannot be used; stored chunks remain."""
