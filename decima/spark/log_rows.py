"""The lines of a decision log as typed records, each value checked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from decima.spark.errors import AttachError
from traces import Job, Stage
from traces.files.names import clean
from traces.files.numbers import MAX_TIME_MS, is_count, is_number


class TaskSet(NamedTuple):
    """One attempt of a stage that the scheduler holds tasks of."""

    stage: int
    attempt: int
    job: str
    num_tasks: int
    successful: int
    running: int
    is_zombie: bool = False
    """it was cancelled, or another attempt replaces it: what runs ends, and nothing starts"""


class LoggedPlan(NamedTuple):
    """One plan and what it was made for."""

    number: int
    time_ms: int
    """of the report that it answers, since the epoch"""
    applied_ms: tuple[int, int]
    """it came into force between these"""
    slots: int
    by: str
    sets: tuple[TaskSet, ...]
    chosen: tuple[int, ...]
    """Spark's ids of stages"""
    limits: Mapping[str, int]
    fault: str | None = None
    """how the policy failed, where another stood in"""
    is_in_force: bool = True
    """False: Spark's own order was, and the plan only what the policy would have done"""
    moving_delay_ms: int | None = None
    """of a coordinator: to start an executor in another application, as measured"""


class LoggedJob(NamedTuple):
    """A job as it ran."""

    key: str
    job: Job
    """stages that ran, whose tasks all take the mean that was measured"""
    arrival_ms: int
    completion_ms: int | None
    """None: it was still running"""
    own_ms: int | None
    """of that time Spark's own (`LiveJob.java`); None: it is not known"""


class UnmeasuredJob(NamedTuple):
    """A job without a successful task, so that its durations are unknown."""

    key: str
    name: str


def logged_plan(row: Mapping[str, Any]) -> LoggedPlan:
    """The plan of a line.

    Raises:
        AttachError: a value is impossible.
        AttributeError, KeyError, TypeError, ValueError: a part is missing or of another kind.
    """
    before_ms, after_ms = row["applied_ms"]
    return LoggedPlan(
        _count(row["plan"], "plan"),
        _count(row["time_ms"], "time_ms"),
        (_count(before_ms, "applied_ms"), _count(after_ms, "applied_ms")),
        _count(row["slots"], "slots"),
        text(row["by"], "by"),
        tuple(_task_set(*one) for one in row["sets"]),
        tuple(_count(stage, "chosen") for stage in row["chosen"]),
        {text(job, "limits"): _count(limit, "limits") for job, limit in row["limits"].items()},
        None if row["fault"] is None else text(row["fault"], "fault"),
        row.get("in_force", True) is True,  # missing in older logs
        None if row.get("moving_delay_ms") is None else _count(row["moving_delay_ms"], "delay"),
    )


def _task_set(stage: Any, attempt: Any, job: Any, *others: Any) -> TaskSet:
    *counts, is_zombie = others
    num_tasks, successful, running = (_count(one, "sets") for one in counts)
    return TaskSet(
        _count(stage, "sets"),
        _count(attempt, "sets"),
        text(job, "sets"),
        num_tasks,
        successful,
        running,
        is_zombie is True,
    )


def logged_job(row: Mapping[str, Any]) -> LoggedJob | None:
    """Parse the row of a job; None for a job of which nothing ran.

    A stage that never ran is left out: it was skipped.

    Raises:
        AttachError: a value is impossible.
        AttributeError, KeyError, TypeError, ValueError: a part is missing or of another kind.
    """
    kept: dict[int, int] = {}
    stages: list[Stage] = []
    for number, stage in enumerate(row["stages"]):
        if stage["mean_ms"] is not None:
            kept[number] = len(kept)
    for number in kept:
        stage = row["stages"][number]
        parents = [kept[parent] for parent in stage["parents"] if parent in kept]
        took_ms = max(1.0, _time(stage["mean_ms"], "mean_ms"))
        num_tasks = _count(stage["num_tasks"], "num_tasks")
        stages.append(Stage.fixed(f"s{number}", num_tasks, took_ms, parents))
    if not stages:
        return None
    completion_ms, own_ms = (
        None if row[label] is None else _count(row[label], label)
        for label in ("completion_ms", "own_ms")
    )
    job = Job(clean(text(row["name"], "name")), tuple(stages))
    arrival_ms = _count(row["arrival_ms"], "arrival_ms")
    return LoggedJob(text(row["job"], "job"), job, arrival_ms, completion_ms, own_ms)


def check_order(job: LoggedJob) -> None:
    """Refuse a job whose times contradict each other.

    Raises:
        AttachError: it ended before it arrived, or Spark took more of its time than it has.
    """
    if job.completion_ms is None:
        return
    took_ms = job.completion_ms - job.arrival_ms
    if took_ms < 0:
        raise AttachError(
            f"job {job.key!r:.60}: completion_ms {job.completion_ms} lies before arrival_ms "
            f"{job.arrival_ms}"
        )
    if job.own_ms is not None and job.own_ms > took_ms:
        raise AttachError(
            f"job {job.key!r:.60}: own_ms {job.own_ms} is more than the {took_ms} ms that it took"
        )


def text(value: object, label: str) -> str:
    """A text fit to be shown, one object for all that are equal.

    Raises:
        AttachError: it is none.
    """
    if not isinstance(value, str):
        raise AttachError(f"{label} is {value!r:.60}: text is needed")
    return sys.intern(clean(value))


def _count(value: object, label: str) -> int:
    if not is_count(value, MAX_TIME_MS):
        raise AttachError(
            f"{label} is {value!r:.60}: a whole number from 0 to {MAX_TIME_MS:,} is needed"
        )
    return value


def _time(value: object, label: str) -> float:
    if not is_number(value) or not 0 <= value <= MAX_TIME_MS:
        raise AttachError(f"{label} is {value!r:.60}: a time from 0 to {MAX_TIME_MS:,} is needed")
    return float(value)
