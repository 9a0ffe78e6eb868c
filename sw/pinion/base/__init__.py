"""Foundations: escaping, progress, output paths, source digests, array types, the installation."""

from __future__ import annotations

from .sources import PACKAGES, package_digest, source_digest

__all__ = ["PACKAGES", "package_digest", "source_digest"]
