"""Compiled code of the agent: the sources that its kernels read."""

from __future__ import annotations

from decima.kernels import POLICIES
from spark_sim.compiled.kernels import Kernels

AGENT = Kernels(
    "agent",
    (
        "decima/agent/column_arrays.py",
        "decima/agent/columns.py",
        "decima/agent/*_kernels.py",
        "decima/agent/kernels.py",
        "decima/agent/scales.py",
        "decima/agent/scene.py",
    ),
    below=POLICIES,
)
kernel = AGENT.kernel
inlined_kernel = AGENT.inlined_kernel
