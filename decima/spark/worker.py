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
    """Daemon thread that makes calls one after the other.

    Not a `ThreadPoolExecutor`: Python waits for the threads of those when it exits, so that one
    call that hangs would keep the driver alive for ever.
    """

    def __init__(self, name: str = "decima-policy") -> None:
        """`name`: of the thread, which the first call starts."""
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_started = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Make `call` once those before it have returned."""
        future: Future[T] = Future()
        self._calls.put((future, call))
        with self._lock:
            if not self._is_started:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._is_started = True
        return future

    def close(self) -> None:
        """End the thread as soon as it is free; wait for nothing."""
        self._calls.put(None)

    def _run(self) -> None:
        while (waiting := self._calls.get()) is not None:
            future, call = waiting
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - the caller's: `result` raises it there
                future.set_exception(error)
