"""Compiled code of the package: the sources that its kernels read."""

from __future__ import annotations

from spark_sim.compiled.kernels import Kernels

DEEPRM = Kernels(
    "deeprm",
    (
        "spark_sim/compiled/kernels.py",
        "deeprm/compile.py",
        "deeprm/tables.py",
        "deeprm/*_kernels.py",
    ),
)
kernel = DEEPRM.kernel
inlined_kernel = DEEPRM.inlined_kernel
