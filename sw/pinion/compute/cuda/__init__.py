"""Batches of dynamics on a GPU: kernels that are printed, compiled and checked without one."""
