"""Comparison with GRiD on a GPU: times and errors of five of its algorithms for the iiwa14."""
