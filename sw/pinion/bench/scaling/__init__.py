"""Experiments of the papers on parallel dynamics: long chains and many robots."""
