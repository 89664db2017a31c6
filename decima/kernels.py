"""Compiled code of policies: `spark_sim.compile` for the kernels that call the simulator's."""

from __future__ import annotations

from spark_sim.compile import SIMULATOR
from spark_sim.compiled.kernels import Kernels

POLICIES = Kernels(
    "policies",
    (
        "decima/heuristics/*.py",
        "decima/kernels.py",
        "decima/whatif/replay/spark_order.py",
    ),
    below=SIMULATOR,
)
kernel = POLICIES.kernel
inlined_kernel = POLICIES.inlined_kernel
vector_kernel = POLICIES.vector_kernel
