"""Compiled code of the simulator: the sources that its kernels read."""

from __future__ import annotations

from spark_sim.compiled.kernels import Kernels

SIMULATOR = Kernels(
    "simulator",
    (
        "spark_sim/compiled/kernels.py",
        "spark_sim/compiled/late.py",
        "spark_sim/compiled/reference.py",
        "traces/arrays.py",
        "spark_sim/batch.py",
        "spark_sim/compile.py",
        "spark_sim/observation.py",
        "spark_sim/tables.py",
        "spark_sim/kernels/*.py",
    ),
)
kernel = SIMULATOR.kernel
inlined_kernel = SIMULATOR.inlined_kernel
