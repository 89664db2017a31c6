"""Progress on stderr while functions are compiled, which takes minutes on a new machine."""

from __future__ import annotations

import sys
import time
from functools import cache
from typing import Any

from numba.core import event

from spark_sim.compiled.cache import IMPORTED, READY, KernelCache

_EVERY_S = 10.0
# numba's stubs know neither.
_Listener: Any = event.Listener
_register: Any = event.register


class Announcer(_Listener):  # type: ignore[misc]
    """Progress lines of compilation: the package, its share, and the time so far.

    Numba reports the begin and end of each compilation, but not loading from disk. A function that
    calls others ends after them.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._spent_s = 0.0
        self._began_s = 0.0
        self._printed_s = 0.0
        self._functions = 0

    def on_start(self, event: Any) -> None:
        """Note that a function is being compiled."""
        package = _package(event)
        if package is None:
            return
        now_s = time.monotonic()
        if self._depth == 0:
            self._began_s = now_s
        if self._functions == 0 and self._depth == 0:
            self._printed_s = now_s
            self.tell(f"compiling for this machine ({package}): minutes at first, then cached")
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Note that a function is compiled, or failed to compile."""
        package = _package(event)
        if package is None:
            return
        self._depth -= 1
        self._functions += 1
        now_s = time.monotonic()
        spent_s = self._spent_s + now_s - self._began_s
        if self._depth == 0:
            self._spent_s = spent_s
        if now_s - self._printed_s >= _EVERY_S:
            self._printed_s = now_s
            # The function that ends is counted only once it is cached.
            done = min(READY[package] + 1, IMPORTED[package])
            count = f"{done} of at most {IMPORTED[package]} functions"
            self.tell(f"compiling: {package}, {count}, {spent_s:.0f} s so far")

    def tell(self, line: str) -> None:
        """Write a line."""
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


@cache
def announce() -> None:
    """Print on stderr, from now on, what this process compiles."""
    _register("numba:compile", Announcer())


def _package(event: Any) -> str | None:
    """Return the package of the function; None for other projects' functions."""
    cache = getattr(event.data["dispatcher"], "_cache", None)
    return cache.package if isinstance(cache, KernelCache) else None
