"""Recorded applications of one cluster, as a simulation of it takes them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decima.whatif.load import are_pooled
from decima.whatif.replay import Recording, ReplayWorkload
from decima.whatif.replay.allocation import is_dynamic
from decima.whatif.replay.pools import Pools
from spark_sim import Cluster, Slots
from spark_sim.tables import NONE
from traces.errors import TraceError
from traces.estimates import Estimates
from traces.numbers import Float64

ASSUMED_DELAY_MS = Cluster.moving_delay_ms
"""from a request to an executor, where no log shows it"""


class ApplicationWork(NamedTuple):
    """One application."""

    name: str
    begin_ms: float
    """its start; the first job of all comes at 0"""
    tail_ms: float
    """from the end of its last job to its own end"""
    curve: Slots
    """recorded slots over time"""
    policy: str
    """Spark's order of its tasks, one of `recording.ORDERS`"""
    pools: Pools


@dataclass(frozen=True, eq=False)
class ApplicationsWorkload:
    """J jobs of several applications."""

    jobs: ReplayWorkload
    application: tuple[int, ...]
    """(J,) position of each job's application"""
    leader: tuple[int, ...]
    """(J,) the job whose end the client of each waits for; NONE: it comes by itself"""
    applications: tuple[ApplicationWork, ...]
    """in the order of their starts"""
    executors: int
    """of the cluster, all of one size"""
    slots_each: int
    """of an executor"""
    at_once: int
    """applications, at most"""
    delay_ms: float
    """from a request to an executor that runs tasks"""
    recorded_starts: int | None
    """executors that came to all applications; None where a log shows none"""

    @classmethod
    def of(
        cls,
        recording: Recording,
        slots: int,
        delay_ms: float,
        *,
        driver_times: bool = True,
        estimates: Estimates = "exact",
        seed: int = 0,
    ) -> ApplicationsWorkload:
        """Prepare a recording for simulations on a cluster of so many slots."""
        jobs = ReplayWorkload.of(
            recording, driver_times=driver_times, estimates=estimates, seed=seed
        )
        leader = np.full(len(jobs.arrivals), NONE)
        rows = jobs.arrivals.job
        leader[rows] = np.where(jobs.follows == NONE, NONE, rows[jobs.follows])
        lives = [recording.life(position) for position in range(len(recording.slots))]
        order = sorted(range(len(lives)), key=lambda position: lives[position].begin_ms)
        place = {position: index for index, position in enumerate(order)}
        each = slots_each(recording)
        names = names_of(recording)
        applications = []
        for position in order:
            last_ms = float(recording.end_ms[recording.application == position].max())
            applications.append(
                ApplicationWork(
                    names[position],
                    lives[position].begin_ms,
                    max(0.0, lives[position].end_ms - last_ms),
                    recording.curve(position),
                    recording.policy(position),
                    recording.pools(position),
                )
            )
        came = [behaviour.executors for behaviour in recording.behaviours]
        counted = [count for count in came if count is not None]
        return cls(
            jobs,
            tuple(place[position] for position in recording.application.tolist()),
            tuple(leader.tolist()),
            tuple(applications),
            max(1, slots // each),
            each,
            most_at_once(recording),
            delay_ms,
            sum(counted) if counted and len(counted) == len(came) else None,
        )


def names_of(recording: Recording) -> list[str]:
    """Names of the applications, equal ones numbered."""
    names = [facts["name"] for facts in recording.trace.metadata["applications"]]
    copies = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [name if n == 1 else f"{name} #{n}" for name, n in zip(names, copies, strict=True)]


def slots_each(recording: Recording) -> int:
    """Slots of an executor, in most of the applications."""
    sizes = Counter(behaviour.slots_each for behaviour in recording.behaviours)
    return sizes.most_common(1)[0][0] if sizes else 1


def check_applications(recording: Recording) -> None:
    """Refuse (TraceError) one application, or several of which none overlaps another."""
    applications = recording.trace.metadata["applications"]
    if len(applications) == 1:
        raise TraceError(
            f"{applications[0]['name']!r:.60} is one application: --applications needs the logs of "
            "two or more that shared a cluster"
        )
    neediest = recording.neediest()
    if neediest is not None:
        raise TraceError(
            f"{neediest.words()}, which --applications does not simulate: ask for one log"
        )
    if not are_pooled(recording):
        raise TraceError(
            f"none of the {len(applications):,} applications had jobs while another had: "
            "--applications needs some that overlap in time"
        )


def cluster_slots(recording: Recording) -> int:
    """The largest number of slots that applications held at one time."""
    lives = [recording.life(position) for position in range(len(recording.slots))]
    curves = [recording.curve(position) for position in range(len(lives))]
    marks = np.concatenate(
        [[life.begin_ms for life in lives], *(curve.time_ms for curve in curves)]
    )
    total = np.zeros(len(marks), np.int64)
    for life, curve in zip(lives, curves, strict=True):
        is_there = (marks >= life.begin_ms) & (marks < life.end_ms)
        total += np.where(is_there, curve.at(marks), 0)
    return max(1, int(total.max()))


def most_at_once(recording: Recording) -> int:
    """The largest number of applications at one time."""
    lives = [recording.life(position) for position in range(len(recording.slots))]
    return max(
        sum(other.begin_ms <= life.begin_ms < other.end_ms for other in lives) for life in lives
    )


def measured_delay_ms(recording: Recording) -> float | None:
    """Return how long an executor takes to come; None where no log shows it.

    Logs have no requests. Dynamic allocation makes them by its rules; without it, an application
    asks when it starts. On a full cluster both times include the wait for room, so the median from
    when another executor went counts if it is shorter.
    """
    requested = [
        behaviour.start_ms
        for position, behaviour in enumerate(recording.behaviours)
        if behaviour.start_ms is not None and is_dynamic(recording.settings(position))
    ]
    first = [life.executor_ms for life in recording.lives if life.executor_ms is not None]
    delays_ms = [float(np.median(requested))] if requested else [min(first)] if first else []
    moves = list(_moves_ms(recording))
    if moves:
        delays_ms.append(float(np.median(moves)))
    return min(delays_ms, default=None)


def _moves_ms(recording: Recording) -> Iterator[float]:
    """Times from the end of an executor to the start of the one in its place.

    Only where the next application had an unfinished job all the while: it may have waited.
    """
    # Times at which an application got (above 0) or lost so many slots; losses first.
    changes: list[tuple[float, int, int]] = []
    for position in range(len(recording.slots)):
        curve, life = recording.curve(position), recording.life(position)
        inside = curve.time_ms < life.end_ms
        times = np.append(curve.time_ms[inside], life.end_ms)
        counts = np.append(curve.count[inside], 0)
        # The first count is of executors that the log does not show coming.
        steps = zip(times[1:].tolist(), np.diff(counts).tolist(), strict=True)
        changes += [(time_ms, step, position) for time_ms, step in steps if step != 0]
    freed: deque[float] = deque()
    for time_ms, step, position in sorted(changes, key=lambda change: change[:2]):
        freed.extend([time_ms] * -step)
        for _ in range(min(step, len(freed))):
            freed_ms = freed.popleft()
            if _has_work(recording, position, freed_ms, time_ms):
                yield time_ms - freed_ms


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
