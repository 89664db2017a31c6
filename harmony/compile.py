"""Compiled code of the package: the sources that its kernels read."""

from __future__ import annotations

from spark_sim.compiled.kernels import Kernels

HARMONY = Kernels(
    "harmony",
    (
        "spark_sim/compiled/kernels.py",
        "decima/rl/study/streams.py",
        "harmony/compile.py",
        "harmony/tables.py",
        "harmony/*_kernels.py",
    ),
)
kernel = HARMONY.kernel
inlined_kernel = HARMONY.inlined_kernel
