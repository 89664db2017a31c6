"""Compiled code: numba kernels and the cache of their machine code. Knows no jobs."""
