"""Compiled code: numba kernels and where their machine code is kept. It knows nothing of jobs."""

import decima_packages

decima_packages.check("compiled")
