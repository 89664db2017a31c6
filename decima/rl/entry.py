"""Start of the commands: Ctrl-C is handled before any package loads, and kept while torch does.

Torch's compiled parts call Python while they are set up. An exception there is lost, or ends the
process by SIGABRT. So Ctrl-C is kept until torch has been loaded, which takes a second or two.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType

from decima_packages import missing_extra

INTERRUPTED = 130
"""exit code of a command that Ctrl-C stopped: 128 and the number of the signal, as in shells"""

MISUSED = 2
"""exit code of a command that cannot be followed"""

_PACKAGE = "torch"


def run(module: str) -> None:
    """Load the module, which takes a second or two, and call its `main`."""
    keep_interrupts_while_torch_loads()
    try:
        importlib.import_module(module).main()
    except ModuleNotFoundError as error:
        message = missing_extra(error)
        if message is None:
            raise
        print(f"error: {message}", file=sys.stderr)  # noqa: T201
        sys.exit(MISUSED)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)


def keep_interrupts_while_torch_loads() -> None:
    """Keep Ctrl-C from now on, wherever torch is imported first."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finder of torch's package, and of nothing else."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _PACKAGE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _KeepingLoader(spec, spec.loader)
        return spec


class _KeepingLoader(Loader):
    """Loader that keeps Ctrl-C while another loader loads the module."""

    def __init__(self, spec: ModuleSpec, loader: Loader) -> None:
        self._spec = spec
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._spec.loader = module.__loader__ = self._loader
        with _interrupts_kept():
            self._loader.exec_module(module)


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Keep a Ctrl-C until the end of the block, whatever handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread alone
        return
    pending: list[int] = []

    def keep(number: int, _frame: FrameType | None) -> None:
        pending.append(number)

    before = signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
        if pending:
            signal.raise_signal(signal.SIGINT)
