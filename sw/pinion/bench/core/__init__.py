"""Cores for rnea at many intervals and for many robots, compared with published designs."""
