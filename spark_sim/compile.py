"""`kernel`: numba compilation whose cache notices a change in any kernel.

Numba checks only the file of the function itself, so a kernel that calls into a changed file would
go on running old machine code. Here the cache folder is named by a fingerprint of the sources of
all kernels, so any change compiles anew and no release ever reads another's cache.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import numba
from numba import njit

P = ParamSpec("P")
R = TypeVar("R")

_ROOT = Path(__file__).parents[1]
KERNEL_SOURCES = ("spark_sim/*.py", "spark_sim/kernels/*.py", "decima/heuristics/*.py")
"""where compiled functions live"""


def fingerprint() -> str:
    """Sixteen hex digits over the kernel sources and the compiler's version."""
    digest = hashlib.sha256(numba.__version__.encode())
    for pattern in KERNEL_SOURCES:
        for path in sorted(_ROOT.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where machine code is kept: below NUMBA_CACHE_DIR, XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen) / f"decima-kernels-{fingerprint()}"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "decima-scheduler" / f"kernels-{fingerprint()}"


_CACHE_FOLDER = str(cache_folder())


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on first use and keep its machine code between runs."""
    dispatcher = njit(function)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _CACHE_FOLDER
    try:
        dispatcher.enable_caching()
    except (RuntimeError, OSError):
        # A read-only home: every run compiles for itself, nothing else changes.
        pass
    finally:
        numba.config.CACHE_DIR = before
    compiled: Callable[P, R] = dispatcher
    return compiled
