"""Compiled code of the package: `compiled.kernels` for the sources that its kernels read."""

from __future__ import annotations

from compiled.kernels import Kernels

DEEPRM = Kernels(
    "deeprm",
    (
        "compiled/kernels.py",
        "deeprm/compile.py",
        "deeprm/tables.py",
        "deeprm/*_kernels.py",
    ),
)
kernel = DEEPRM.kernel
inlined_kernel = DEEPRM.inlined_kernel
