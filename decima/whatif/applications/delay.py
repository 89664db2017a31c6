"""The moving delay that event logs of one cluster show."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from decima.whatif.replay import Recording
from decima.whatif.replay.allocation import is_dynamic
from traces.numbers import Float64


def measured_delay_ms(recording: Recording) -> float | None:
    """Return how long an executor takes to come; None where no log shows it.

    Logs have no requests. Dynamic allocation makes them by its rules; without it, an application
    asks when it starts. On a full cluster both times include the wait for room, so the median from
    when another executor went counts if it is shorter.
    """
    requested = [
        one.start_ms
        for position, one in enumerate(recording.behaviours)
        if one.start_ms is not None and is_dynamic(recording.settings(position))
    ]
    first = [one.executor_ms for one in recording.lives if one.executor_ms is not None]
    found = [float(np.median(requested))] if requested else [min(first)] if first else []
    moves = list(_moves_ms(recording))
    if moves:
        found.append(float(np.median(moves)))
    return min(found, default=None)


def _moves_ms(recording: Recording) -> Iterator[float]:
    """Times from the end of an executor to the start of the one in its place.

    Only where the next application had an unfinished job all the while: it may have waited.
    """
    freed: deque[float] = deque()
    for time_ms, application, change in _changes(recording):
        freed.extend([time_ms] * -change)
        for _ in range(min(change, len(freed))):
            freed_ms = freed.popleft()
            if _has_work(recording, application, freed_ms, time_ms):
                yield time_ms - freed_ms


def _changes(recording: Recording) -> list[tuple[float, int, int]]:
    """Times at which an application got (above 0) or lost so many slots; losses first."""
    found = []
    for position in range(len(recording.slots)):
        curve, life = recording.curve(position), recording.life(position)
        inside = curve.time_ms < life.end_ms
        times = np.append(curve.time_ms[inside], life.end_ms)
        counts = np.append(curve.count[inside], 0)
        # The first count is of executors that the log does not show coming.
        found += [
            (float(at), position, int(step))
            for at, step in zip(times[1:], np.diff(counts), strict=True)
            if step != 0
        ]
    return sorted(found, key=lambda one: (one[0], one[2]))


def _has_work(recording: Recording, application: int, begin_ms: float, end_ms: float) -> bool:
    """Return whether the application had an unfinished job from `begin_ms` to `end_ms`."""
    rows = recording.application == application
    arrival_ms: Float64 = recording.arrival_ms[rows]
    for row in np.argsort(arrival_ms, kind="stable"):
        if arrival_ms[row] > begin_ms:
            return False
        begin_ms = max(begin_ms, recording.end_ms[rows][row])
        if begin_ms >= end_ms:
            return True
    return False
