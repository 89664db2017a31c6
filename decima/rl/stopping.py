"""Stop a training when asked to, or when its time is over: soon, whatever an iteration takes."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

GRACE_S = 5.0
"""seconds after a request to stop in which an iteration may still end and count"""
_LONGEST_S = 1e8
"""The system's timer refuses much more."""


class Interrupted(BaseException):
    """The iteration under way is to be given up; not an `Exception`, which code may catch."""


class Stop:
    """State of a request to stop: whether it was made, and when to give up the iteration."""

    def __init__(self) -> None:
        self.asked = False
        """Whether SIGINT or SIGTERM came."""
        self._is_armed = False

    @contextlib.contextmanager
    def may_interrupt(self) -> Iterator[None]:
        """Allow `Interrupted` inside the block, which leaves nothing half written."""
        self._is_armed = True
        try:
            yield
        finally:
            self._is_armed = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT or SIGTERM: the first gives the iteration `GRACE_S`, the second nothing."""
        if not self.asked:
            self.asked = True
            left_s = signal.getitimer(signal.ITIMER_REAL)[0]
            _set_timer(min(left_s, GRACE_S) if left_s > 0.0 else GRACE_S)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            self.time_up(number, frame)

    def time_up(self, _number: int, _frame: FrameType | None) -> None:
        """Handle SIGALRM: give up the iteration, if one is under way."""
        if self._is_armed:
            raise Interrupted


@contextlib.contextmanager
def stop_signals(limit_s: float | None = None) -> Iterator[Stop]:
    """Turn SIGINT, SIGTERM and the end of `limit_s` into a `Stop`, inside the block.

    An iteration that has not ended `GRACE_S` after that raises `Interrupted`. A second SIGINT
    raises KeyboardInterrupt anywhere. Outside the main thread, where Python handles no signals,
    nothing of this happens.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    handlers = {signal.SIGINT: stop.ask, signal.SIGTERM: stop.ask, signal.SIGALRM: stop.time_up}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    timer = signal.getitimer(signal.ITIMER_REAL)
    if limit_s is not None:
        _set_timer(limit_s + GRACE_S)
    try:
        yield stop
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        for number, handler in before.items():
            signal.signal(number, handler)


def _set_timer(seconds: float) -> None:
    # Again and again: an exception raised inside a destructor or a callback from C is lost.
    signal.setitimer(signal.ITIMER_REAL, min(max(seconds, 1e-3), _LONGEST_S), GRACE_S)
