"""Stop between two iterations when asked to, not in the middle of one."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn SIGINT and SIGTERM into an answer to "was I asked to stop?", inside the block.

    A second SIGINT raises KeyboardInterrupt, for an iteration that takes too long to wait for.
    Outside the main thread, where Python hands out no signals, the answer stays no.
    """
    asked = threading.Event()

    def ask(number: int, _frame: FrameType | None) -> None:
        if asked.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
