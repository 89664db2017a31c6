"""Status of a scheduler, and the history that it needs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from decima.spark.auto import Choice
from decima.spark.live_job import LiveJob
from decima.spark.reports import SessionReport

RATE_S = 10.0
"""rates are over so many of the last seconds"""
_KEPT_ROUNDS = 10_000


@dataclass(frozen=True)
class JobStatus:
    """Status of a job of the session."""

    key: str
    """by which `SchedulerStatus.held` and `limits` know it"""
    name: str
    """a description, as the application gave it"""
    held: int
    """slots"""
    limit: int | None
    """in the newest plan; None where that has none"""
    waiting_tasks: int
    """tasks that could start now"""
    age_s: float | None
    """since it arrived; None while its first event is on its way"""
    unserved_s: float | None
    """for how long it has held no slot though a task waits; None if it holds one or none waits"""


@dataclass(frozen=True)
class SchedulerStatus:
    """Status of a scheduler; counts are since it attached."""

    mode: str
    policy: str
    is_attached: bool
    ended_because: str | None
    """why it let go; None while it is attached or after `detach`"""
    plans: int
    fallbacks: int
    """rounds that strict fair decided, because the policy failed"""
    last_fault: str | None
    starved: int
    """jobs that were served because they had waited too long"""
    plan_ms_median: float
    plan_ms_p90: float
    """from the news to the plan in force"""
    held: dict[str, int]
    """slots by job"""
    limits: dict[str, int]
    """by job, in the newest plan"""
    dropped_events: int
    prior_hits: int
    """stages for which earlier runs were found in `priors`"""
    prior_misses: int
    """for which none were, or ambiguous ones; both 0 without `priors`"""
    choice: Choice | None = None
    """under the policy "auto", what is in force and why"""
    is_ready: bool = True
    """False while strict fair decides while a learned policy is loaded"""
    jvm: dict[str, Any] = field(default_factory=dict)
    """counters of the classes in the JVM"""
    slots: int = 0
    """of the session"""
    jobs: tuple[JobStatus, ...] = ()
    """in the system, by arrival"""
    is_lapsed: bool = False
    """Spark's own order has returned, until the scheduler is heard again"""
    decisions_per_s: float = 0.0
    """stages that were put into plans, over the last seconds"""
    uptime_s: float | None = None
    """since it attached; None before"""
    heard_s: float | None = None
    """since the last report of the session; None before the first"""


def held_slots(report: SessionReport) -> dict[str, int]:
    """Slots by job, including tasks whose results are not needed."""
    found: Counter[str] = Counter()
    for one in report.sets:
        found[one.job] += one.running
    return dict(found)


def waiting_tasks(report: SessionReport) -> dict[str, int]:
    """Tasks that could start now, by job."""
    found: Counter[str] = Counter()
    for one in report.sets:
        found[one.job] += one.waiting
    return dict(found)


def jobs_of(
    report: SessionReport,
    known: Iterable[LiveJob],
    limits: Mapping[str, int],
    unserved_ms: Mapping[str, int],
) -> tuple[JobStatus, ...]:
    """The jobs in the system by arrival: those with tasks, and those that Spark still plans for.

    Args:
        report: the newest.
        known: jobs that run, and others.
        limits: by job.
        unserved_ms: `Unserved.since_ms`.
    """
    jobs = {job.key: job for job in known}
    held, waiting = held_slots(report), waiting_tasks(report)
    keys = dict.fromkeys([*held, *(key for key, job in jobs.items() if job.is_active)])

    def one(key: str) -> JobStatus:
        job, since_ms = jobs.get(key), unserved_ms.get(key)
        return JobStatus(
            key=key,
            name=key if job is None else job.name,
            held=held.get(key, 0),
            limit=limits.get(key),
            waiting_tasks=waiting.get(key, 0),
            age_s=None if job is None else max(0, report.time_ms - job.arrival_ms) / 1000,
            unserved_s=None if since_ms is None else max(0, report.time_ms - since_ms) / 1000,
        )

    return tuple(sorted(map(one, keys), key=lambda job: (-(job.age_s or 0.0), job.key)))


class Unserved:
    """Start times of waits of jobs without a slot that have a task to start."""

    def __init__(self) -> None:
        self.since_ms: Mapping[str, int] = {}
        """by job, since the epoch; replaced as a whole, so that any thread may read it"""

    def update(self, report: SessionReport) -> None:
        """Take in one report after the other."""
        held = held_slots(report)
        self.since_ms = {
            job: self.since_ms.get(job, report.time_ms)
            for job, tasks in waiting_tasks(report).items()
            if tasks > 0 and held[job] == 0
        }


class Rate:
    """Events per second over the last `RATE_S` seconds."""

    def __init__(self) -> None:
        self._began_s: float | None = None
        self._noted: deque[tuple[float, int]] = deque(maxlen=_KEPT_ROUNDS)

    def note(self, count: int, now_s: float) -> None:
        """`count` of them, now."""
        if self._began_s is None:
            self._began_s = now_s
        self._noted.append((now_s, count))

    def per_s(self, now_s: float) -> float:
        """The rate; over the time since the first one where that was less long ago."""
        if self._began_s is None:
            return 0.0
        recent = [(at_s, count) for at_s, count in tuple(self._noted) if at_s > now_s - RATE_S]
        since_s = max(self._began_s, now_s - RATE_S)
        if len(recent) == _KEPT_ROUNDS:  # those before them are forgotten
            since_s = recent[0][0]
        return sum(count for _, count in recent) / max(1.0, now_s - since_s)
