"""Status of a scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from decima.spark.auto import Choice
from decima.spark.settings import AttachError
from traces.files.reading import parse_json


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
    """rounds that another decided, because the policy failed or was not there any more"""
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
    state: str | None = None
    """who orders tasks: "policy decides", "stand-in", "caps only" or "nothing"; else None"""
    reason: str | None = None
    """of the state"""
    choice: Choice | None = None
    """under the policy "auto", what is in force and why"""
    is_ready: bool = True
    """False while strict fair decides, as a policy in Python is loaded"""
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


def read_status(text: str) -> SchedulerStatus:
    """Parse the JVM's picture of a session (`Decider.java`); AttachError if it is none."""
    fields = parse_json(text, "status of the JVM", AttachError)
    try:
        if fields["choice"] is not None:
            fields["choice"] = Choice(**fields["choice"])
        jobs = [JobStatus(**job) for job in fields["jobs"]]
        fields["jobs"] = tuple(sorted(jobs, key=lambda job: (-(job.age_s or 0.0), job.key)))
        return SchedulerStatus(**fields)
    except (KeyError, TypeError) as error:
        raise AttachError(f"status of the JVM: {type(error).__name__}: {error}") from error
