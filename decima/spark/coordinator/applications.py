"""Applications of one cluster: their work, and the executors that each holds."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from decima.spark.coordinator.messages import Registration, Stages
from spark_sim.tables import LEAST_WORK_MS

_SAMPLES = 32
_ENOUGH = 3
_MAX_DELAY_MS = 600_000.0


@dataclass
class Application:
    """An application that is connected."""

    registration: Registration
    base_weight: float
    """of the application, or of each of its jobs"""
    counts_jobs: bool
    """True: it weighs as much as its unfinished jobs together"""
    caps: dict[str, int]
    """by the group that shares each"""
    stages: Stages | None = None
    """None: it has no work"""
    has_reported: bool = True
    """False: its work is unknown, as another coordinator served it before"""
    arrival_ms: float = 0.0
    """of its oldest unfinished job"""
    granted: int = 0
    """executors that it may hold: its newest target"""
    registered: int = 0
    """executors that its driver knows, without those that leave"""
    requested_ms: float | None = None
    """when a plan last raised `granted`; None: those that it has started with the application"""
    waits_since_ms: float | None = None
    """since when it has had work and held no executor; None if it does not wait"""
    serves_since_ms: float = 0.0
    """since when it has held an executor"""
    idle_since_ms: float = -math.inf
    """when it last ran out of work"""

    @property
    def starting(self) -> int:
        """Executors that are granted and not registered."""
        return max(0, self.granted - self.registered)

    @property
    def waiting_tasks(self) -> int:
        """Tasks that no executor runs yet."""
        return 0 if self.stages is None else self.stages.waiting

    @property
    def weight(self) -> float:
        """Factor on its limits, and divisor of the durations that policies observe."""
        num_jobs = 1 if self.stages is None or not self.counts_jobs else self.stages.num_jobs
        return self.base_weight * num_jobs

    def executors_for(self, tasks: int) -> int:
        """Return how many of its executors run so many tasks at once."""
        return -(-tasks // self.registration.tasks)

    def waited_ms(self, now_ms: float) -> float:
        """Return for how long it has waited for its first executor; 0 if it does not."""
        return 0.0 if self.waits_since_ms is None else now_ms - self.waits_since_ms

    def is_between_jobs(self, now_ms: float, idle_ms: float) -> bool:
        """Return whether it ran out of work less than `idle_ms` ago, or may have work.

        With adaptive execution each shuffle of a query ends a Spark job, and the next job follows.
        """
        is_recent = now_ms < self.idle_since_ms + idle_ms
        return self.stages is None and (is_recent or not self.has_reported)

    def note_wait(self, now_ms: float) -> None:
        """Update since when it has waited for its first executor, or held one."""
        if self.granted > 0:
            if self.waits_since_ms is not None:
                self.serves_since_ms = now_ms
            self.waits_since_ms = None
        elif self.waiting_tasks == 0:
            self.waits_since_ms = None
        elif self.waits_since_ms is None:
            self.waits_since_ms = now_ms


class MovingDelay:
    """Measured time from a request to a registered executor: the median of the newest.

    On a full cluster an executor starts once another has gone. Places are taken in the order in
    which they became free.
    """

    def __init__(self, first_ms: float, slots: int) -> None:
        """`first_ms`: the delay until a few have been measured; `slots`: of the cluster."""
        self._first_ms = first_ms
        self._samples: deque[float] = deque(maxlen=_SAMPLES)
        self._slots = slots
        self._free_since_ms = deque([-math.inf] * slots, maxlen=slots)

    @property
    def ms(self) -> float:
        """The delay that plans count with."""
        if len(self._samples) < _ENOUGH:
            return self._first_ms
        return statistics.median(self._samples)

    @property
    def samples(self) -> int:
        """Number of measurements that the delay is made of."""
        return len(self._samples)

    def note_departures(self, count: int, now_ms: float) -> None:
        """Executors left, `count` of them: from now on others may start in their places."""
        self._free_since_ms.extend([now_ms] * min(count, self._slots))

    def note_arrivals(self, count: int, requested_ms: float | None, now_ms: float) -> None:
        """Executors registered that were requested then; None if they were not requested."""
        for _ in range(min(count, self._slots)):
            free_ms = self._free_since_ms.popleft() if self._free_since_ms else -math.inf
            if requested_ms is not None:
                took_ms = now_ms - max(requested_ms, free_ms)
                if 0.0 < took_ms < _MAX_DELAY_MS:
                    self._samples.append(took_ms)


class Arrivals:
    """Statistics over all arrivals of work, which policies observe."""

    def __init__(self) -> None:
        self._count = 0
        self._first_ms = math.inf
        self.last_ms = 0.0
        """when work last arrived"""
        self._work_log = 0.0
        self._ended = 0

    def note(self, arrival_ms: float) -> None:
        """Work arrived."""
        self._count += 1
        self._first_ms = min(self._first_ms, arrival_ms)
        self.last_ms = max(self.last_ms, arrival_ms)

    def note_end(self, work_ms: float) -> None:
        """Work of so many milliseconds is over."""
        self._ended += 1
        self._work_log += math.log(max(work_ms, LEAST_WORK_MS))

    @property
    def mean_gap_ms(self) -> float:
        """Mean time between arrivals; infinity before the second."""
        gaps = self._count - 1
        return (self.last_ms - self._first_ms) / gaps if gaps > 0 else math.inf

    def typical_ms(self, active: Collection[float]) -> float:
        """Return the geometric mean work of what is over and of `active`, in milliseconds."""
        total = self._work_log + sum(math.log(max(work, LEAST_WORK_MS)) for work in active)
        return math.exp(total / max(1, self._ended + len(active)))
