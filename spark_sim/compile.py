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
from typing import Any, ParamSpec, TypeVar

import numba

# numba's stubs know neither `_nrt` nor the settings.
_compiler: Any = numba.njit
_settings: Any = numba.config

P = ParamSpec("P")
R = TypeVar("R")

_ROOT = Path(__file__).parents[1]
KERNEL_SOURCES = (
    "traces/arrays.py",
    "spark_sim/batch.py",
    "spark_sim/compile.py",
    "spark_sim/observation.py",
    "spark_sim/tables.py",
    "spark_sim/kernels/*.py",
    "decima/agent/columns.py",
    "decima/agent/kernels.py",
    "decima/agent/scene.py",
    "decima/heuristics/*.py",
    "decima/replay/*.py",
)
"""where compiled functions, and the constants and columns that they read, are written"""


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


def is_compiled() -> bool:
    """Whether an earlier run has left machine code for these sources (else: about a minute)."""
    return any(Path(_CACHE_FOLDER).rglob("*.nbi"))


# `_nrt=False` leaves out numba's reference counting. Kernels own nothing: they read and write the
# arrays of their arguments, which the caller keeps alive, and allocate none (the compiler refuses a
# kernel that does). Counting cost 8 of every 9 seconds (`benchmarks/simulator_speed.py`).


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on first use and keep its machine code between runs."""
    return _cached(_compiler(_nrt=False)(function))


def inlined_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, for small functions on the path of every task event.

    Without this each call copies the whole `State`, some hundred words
    (`benchmarks/simulator_speed.py`).
    """
    return _cached(_compiler(_nrt=False, forceinline=True)(function))


def _cached(dispatcher: Callable[P, R]) -> Callable[P, R]:
    before = _settings.CACHE_DIR
    _settings.CACHE_DIR = _CACHE_FOLDER
    try:
        dispatcher.enable_caching()  # type: ignore[attr-defined]
    except (RuntimeError, OSError):
        # A read-only home: every run compiles for itself, nothing else changes.
        pass
    finally:
        _settings.CACHE_DIR = before
    return dispatcher
