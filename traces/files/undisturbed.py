"""Loading of torch without a Ctrl-C in its middle.

Its compiled parts call Python while they are set up. An exception there is lost, or ends the
process by SIGABRT. So Ctrl-C is kept until torch has been loaded, which takes a second or two.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType

_PACKAGE = "torch"


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Keep a Ctrl-C until the end of the block, whatever handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread alone
        return
    kept: list[int] = []

    def keep(number: int, _frame: FrameType | None) -> None:
        kept.append(number)

    before = signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
        if kept:
            signal.raise_signal(signal.SIGINT)


class _KeepingLoader(Loader):
    """Load a module as another loader does."""

    def __init__(self, spec: ModuleSpec, loader: Loader) -> None:
        self._spec = spec
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._spec.loader = module.__loader__ = self._loader
        with interrupts_kept():
            self._loader.exec_module(module)


class _Finder(MetaPathFinder):
    """Find torch's package, and nothing else."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _PACKAGE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _KeepingLoader(spec, spec.loader)
        return spec


def keep_interrupts_while_torch_loads() -> None:
    """Do so from now on, wherever torch is imported first."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
