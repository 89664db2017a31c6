"""Compiled code of the encoder: `compiled.kernels` for the sources that its kernels read."""

from __future__ import annotations

from compiled.kernels import Kernels

ENCODER = Kernels("encoder", ("compiled/kernels.py", "gnn/*_kernels.py", "gnn/kernels.py"))
kernel = ENCODER.kernel
inlined_kernel = ENCODER.inlined_kernel
