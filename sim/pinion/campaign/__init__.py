"""Campaigns on Dask: many states through models, RTL, CPUs, GPUs and cards."""

from __future__ import annotations

from .batch import batch
from .cluster import cluster
from .errors import CampaignError, ChunksError, ClusterError
from .plan import CHUNK, Plan
from .run import CampaignProgress, campaign
from .store import ChunkRecord, StateStore, read_results
from .sweep import on
from .tally import FigureTally

__all__ = [
    "CHUNK",
    "CampaignError",
    "CampaignProgress",
    "ChunkRecord",
    "ChunksError",
    "ClusterError",
    "FigureTally",
    "Plan",
    "StateStore",
    "batch",
    "campaign",
    "cluster",
    "on",
    "read_results",
]
