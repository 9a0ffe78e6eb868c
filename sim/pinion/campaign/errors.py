"""What can go wrong with a campaign as a whole."""

from __future__ import annotations


class CampaignError(ValueError):
    """A campaign cannot be begun, or not be gone on with; the message says why and what to do."""


class ChunksError(CampaignError):
    """So many chunks failed that no more were tried; the message has what the last one said."""


class ClusterError(RuntimeError):
    """The scheduler or its workers cannot be used; what has been stored stays."""
