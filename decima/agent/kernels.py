"""Compiled code of the agent: the sources that its kernels read."""

from __future__ import annotations

from decima.kernels import POLICIES
from spark_sim.compiled.kernels import Kernels

AGENT = Kernels(
    "agent",
    (
        "decima/agent/columns.py",
        "decima/agent/*_kernels.py",
        "decima/agent/kernels.py",
        "decima/agent/plans.py",
        "decima/agent/scales.py",
    ),
    below=POLICIES,
)
kernel = AGENT.kernel
inlined_kernel = AGENT.inlined_kernel
outlined_kernel = AGENT.outlined_kernel
