"""Compiled code: numba kernels and where their machine code is kept. It knows nothing of jobs."""
