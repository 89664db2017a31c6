"""Compiled code of the package: `compiled.kernels` for the sources that its kernels read."""

from __future__ import annotations

from compiled.kernels import Kernels

HARMONY = Kernels(
    "harmony",
    (
        "compiled/kernels.py",
        "harmony/compile.py",
        "harmony/tables.py",
        "harmony/*_kernels.py",
    ),
)
kernel = HARMONY.kernel
inlined_kernel = HARMONY.inlined_kernel
