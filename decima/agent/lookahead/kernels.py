"""Compiled code of the look ahead: the sources that its kernels read."""

from __future__ import annotations

from decima.kernels import POLICIES
from spark_sim.compiled.kernels import Kernels

LOOKAHEAD = Kernels(
    "lookahead",
    ("decima/agent/lookahead/*_kernels.py", "decima/agent/lookahead/kernels.py"),
    below=POLICIES,
)
kernel = LOOKAHEAD.kernel
inlined_kernel = LOOKAHEAD.inlined_kernel
