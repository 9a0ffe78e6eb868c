"""Cores: rnea at many intervals and for many robots, beside published designs."""
