"""`Worker`: a thread for calls that may never return."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Call = tuple[Future[Any], Callable[[], Any]]


class Worker:
    """Makes calls one after the other in a daemon thread.

    Not a `ThreadPoolExecutor`: Python waits for the threads of those when it exits, so that one
    call that hangs would keep the driver alive for ever.
    """

    def __init__(self, name: str = "decima-policy") -> None:
        """Args:
        name: of the thread.
        """
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Make `call` once those before it have returned."""
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    def close(self) -> None:
        """End the thread as soon as it is free; wait for nothing."""
        self._calls.put(None)

    def _run(self) -> None:
        while (found := self._calls.get()) is not None:
            future, call = found
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - the caller's: `result` raises it there
                future.set_exception(error)
