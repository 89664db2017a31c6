"""`Kernels`: numba compilation whose cache notices a change in any kernel.

Numba checks only the file of the function itself, so a kernel that calls into a changed file would
keep running old machine code. Here the cache folder is named by a fingerprint of the sources of all
kernels that may be called. So any change compiles again and no release reads another's cache. Each
package with kernels names their sources in its own `Kernels`.

Numba also separates functions by folder. Here equal sources share their machine code in any folder:
a cluster unpacks an archive for each executor of each application, and a host should compile only
once. Files are checked before loading (`spark_sim.compiled.cache`).
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import registry, types
from numba.extending import intrinsic

from spark_sim.compiled.cache import KernelCache, Place
from spark_sim.compiled.late import FAULTS, NotCompiledError
from spark_sim.compiled.shipped import unpack_once

# numba's stubs know neither `_nrt` nor dispatchers.
_compiler: Any = numba.njit
_Dispatcher: Any = registry.CPUDispatcher
_unliteral: Any = types.unliteral
_Integer: Any = types.Integer
_intrinsic: Any = intrinsic

P = ParamSpec("P")
R = TypeVar("R")

_ROOT = Path(__file__).resolve().parents[2]

# `_nrt=False` leaves out numba's reference counting. Kernels own nothing: they read and write the
# arrays of their arguments, which the caller keeps alive, and allocate none (the compiler refuses a
# kernel that does). Counting cost 8 of every 9 seconds (`benchmarks/simulator_speed.py`).


def _keep_apart(_typing: Any) -> Any:
    """For an outlined kernel: keep the compiler from copying it into its callers."""

    def generate(context: Any, builder: Any, _signature: Any, _values: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


never_inline: Callable[[], None] = _intrinsic(_keep_apart)


def _widest(kind: Any) -> Any:
    """Return the type that numba computes with, for whole numbers that are read from tables."""
    kind = _unliteral(kind)
    is_narrow = isinstance(kind, _Integer) and kind.signed and kind.bitwidth < 64
    return types.int64 if is_narrow else kind


class _Inner(_Dispatcher):  # type: ignore[misc]
    """Kernel without numba's wrapper for calls from Python: most are called by kernels alone.

    The wrapper unpacks a hundred words of a `State`, which takes long to compile
    (docs/results/2026-11-session-growth.md). A call from Python compiles the function a second
    time, with it.
    """

    def __call__(self, *args: Any) -> Any:
        try:
            return self.outer(*args)
        except NotCompiledError:
            # Without a fault, Ctrl-C came before `late` could keep it.
            raise FAULTS.pop() if FAULTS else KeyboardInterrupt from None

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Find the function for a kernel's call.

        Numba would compile one for each constant, and for each width of an integer.
        """
        return super().get_call_template(tuple(_widest(kind) for kind in args), kws)

    @cached_property
    def outer(self) -> Any:
        """Compile the function for calls from Python."""
        options = self.targetoptions | {"no_cpython_wrapper": False}
        dispatcher: Any = numba.jit(**options)(self.py_func)
        if isinstance(self._cache, KernelCache):
            dispatcher._cache = self._cache.outer()
        return dispatcher


@dataclass(frozen=True)
class Kernels:
    """The kernels of one package, cached together."""

    name: str
    """name of the cache folder"""
    sources: tuple[str, ...]
    """patterns of the files with the kernels and the constants and columns that they read"""
    below: Kernels | None = None
    """kernels that they call"""
    root: Path = _ROOT
    """folder that the patterns are relative to"""

    def fingerprint(self) -> str:
        """Sixteen hex digits over these sources, those below and the compiler's version."""
        base = numba.__version__ if self.below is None else self.below.fingerprint()
        digest = hashlib.sha256(base.encode())
        for pattern in self.sources:
            paths = sorted(self.root.glob(pattern))
            if not paths:
                # Without sources every change would go unnoticed.
                raise LookupError(f"kernels {self.name!r}: no source is {self.root / pattern}")
            for path in paths:
                digest.update(path.read_bytes())
        return digest.hexdigest()[:16]

    def cache_folder(self) -> Path:
        """Return the folder of cached machine code: below NUMBA_CACHE_DIR, XDG_CACHE_HOME or
        ~/.cache.
        """
        chosen = os.environ.get("NUMBA_CACHE_DIR")
        if chosen:
            return Path(chosen) / f"decima-{self.name}-{self.fingerprint()}"
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "decima-scheduler" / f"{self.name}-{self.fingerprint()}"

    @cached_property
    def folder(self) -> str:
        """Path of `cache_folder` as it was when the first kernel was made."""
        folder = self.cache_folder()
        unpack_once(folder)
        return str(folder)

    def kernel(self, function: Callable[P, R]) -> Callable[P, R]:
        """Compile `function` on first use and cache its machine code between runs."""
        return self._compiled(function)

    def inlined_kernel(self, function: Callable[P, R]) -> Callable[P, R]:
        """Compile a small function like `kernel`, inlined on the path of every task event.

        Without this each call copies the whole `State`, some hundred words
        (`benchmarks/simulator_speed.py`).
        """
        return self._compiled(function, forceinline=True)

    def outlined_kernel(self, function: Callable[P, R]) -> Callable[P, R]:
        """Compile a function that begins with `never_inline()`, to be called and never copied.

        The compiler copies small functions into their callers: with one that twenty places call,
        it then optimises twenty copies (docs/results/2026-11-session-growth.md).
        """
        # Without the option numba takes over that of the caller which compiles it first.
        return self._compiled(function, forceinline=False)

    def vector_kernel(self, function: Callable[P, R]) -> Callable[P, R]:
        """Compile loops over numbers so that the processor computes several at once.

        A check of each division would prevent that: one by zero gives infinity or NaN here.
        """
        return self._compiled(function, error_model="numpy")

    def _compiled(self, function: Callable[P, R], **options: bool | str) -> Callable[P, R]:
        bare = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        dispatcher = _compiler(**bare, **options)(function)
        dispatcher.__class__ = _Inner
        # As `enable_caching`, with another folder.
        try:
            place = self._place(function)
        except (OSError, RuntimeError):  # a source that cannot be read, a user without a home
            place = None
        dispatcher._cache = KernelCache(function, place, self.name)
        return dispatcher  # type: ignore[no-any-return]

    def _place(self, function: Any) -> Place | None:
        """Return the cache of `function`'s machine code; None if its source is in no file."""
        path = Path(inspect.getfile(function)).resolve()
        if not path.is_file():  # typed at a prompt
            return None
        line = function.__code__.co_firstlineno
        name = f"{path.stem}.{re.sub(r'[<>]', '', function.__qualname__)}-{line}"
        if path.is_relative_to(self.root):
            # The folder's name already covers the content of this project's files.
            inside = ".".join(path.relative_to(self.root).parent.parts)
            return Place(Path(self.folder) / inside, name, "")
        inside = hashlib.sha256(str(path.parent).encode()).hexdigest()[:16]
        stamp = hashlib.sha256(path.read_bytes()).hexdigest()
        return Place(Path(self.folder) / inside, name, stamp)
