"""Errors that end a campaign."""

from __future__ import annotations


class CampaignError(ValueError):
    """Error for a campaign that cannot begin or continue; the message gives reason and advice."""


class ChunksError(CampaignError):
    """Error for a run in which too many chunks failed; the message quotes the last failure."""


class ClusterError(RuntimeError):
    """Error for a scheduler or workers that cannot be used; chunks already stored are kept."""
