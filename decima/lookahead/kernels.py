"""Compiled code of the look ahead: `compiled.kernels` for the sources that its kernels read."""

from __future__ import annotations

from compiled.kernels import Kernels
from decima.kernels import POLICIES

LOOKAHEAD = Kernels(
    "lookahead",
    ("decima/lookahead/*_kernels.py", "decima/lookahead/kernels.py"),
    below=POLICIES,
)
kernel = LOOKAHEAD.kernel
inlined_kernel = LOOKAHEAD.inlined_kernel
