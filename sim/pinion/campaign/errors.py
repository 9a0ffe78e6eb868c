"""Errors that end a campaign."""

from __future__ import annotations


class CampaignError(ValueError):
    """Error if a campaign cannot begin or continue; the message gives the reason and advice."""


class ChunksError(CampaignError):
    """Error if too many chunks failed; the message quotes the last failure."""


class ClusterError(RuntimeError):
    """Error if the scheduler or its workers cannot be used; chunks already stored are kept."""
