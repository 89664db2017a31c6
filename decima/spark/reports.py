"""What the driver's JVM tells: one report for each wait, parsed into plain types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from traces.spark_log.events import (
    EXECUTION_ID,
    JOB_GROUP,
    OWN_JOB,
    ROOT_EXECUTION_ID,
    JobEnd,
    JobStart,
)
from traces.spark_log.parse import event_name, parse_event

_KINDS = {OWN_JOB: "job", ROOT_EXECUTION_ID: "sql", EXECUTION_ID: "sql", JOB_GROUP: "group"}


class TaskSet(NamedTuple):
    """One attempt of a stage that the scheduler holds tasks of."""

    stage: int
    attempt: int
    job: str
    num_tasks: int
    successful: int
    running: int
    is_limited: bool
    """False: it was there before us, so its tasks obey no limit"""

    @property
    def waiting(self) -> int:
        """Tasks that no slot runs and that have not succeeded."""
        return max(0, self.num_tasks - self.successful - self.running)


class StageDone(NamedTuple):
    stage: int
    attempt: int
    succeeded: bool


class TaskDone(NamedTuple):
    stage: int
    attempt: int
    launch_ms: int
    finish_ms: int
    succeeded: bool


LiveEvent = JobStart | JobEnd | StageDone | TaskDone


class Report(NamedTuple):
    """All task sets at one instant, and the events since the last report."""

    time_ms: int
    """since the epoch"""
    slots: int
    """tasks that can run at once"""
    plan: int
    """number of the plan in force"""
    lapsed: bool
    """the plan is suspended, because no decision came for too long"""
    attached: bool
    dropped: int
    """events lost so far because they came faster than they were read"""
    sets: tuple[TaskSet, ...]
    events: tuple[LiveEvent, ...]

    @property
    def running(self) -> int:
        return sum(one.running for one in self.sets)


def read_report(text: str) -> Report:
    """Parse what `Control.await` returns.

    Raises:
        ValueError: not such a text; it comes from our own code, so this is a fault of ours.
    """
    found = json.loads(text)
    events = (_event(line) for line in found["events"])
    return Report(
        time_ms=found["time_ms"],
        slots=found["slots"],
        plan=found["plan"],
        lapsed=found["lapsed"],
        attached=found["attached"],
        dropped=found["dropped"],
        sets=tuple(TaskSet(*row) for row in found["sets"]),
        events=tuple(event for event in events if event is not None),
    )


def _event(line: str) -> LiveEvent | None:
    if line.startswith("T "):
        stage, attempt, launch_ms, finish_ms, succeeded = map(int, line[2:].split())
        return TaskDone(stage, attempt, launch_ms, finish_ms, succeeded == 1)
    if line.startswith("S "):
        stage, attempt, succeeded = map(int, line[2:].split())
        return StageDone(stage, attempt, succeeded == 1)
    encoded = line.encode()
    event = parse_event(event_name(encoded), encoded)
    return event if isinstance(event, JobStart | JobEnd) else None


def job_of(properties: Mapping[str, str], spark_job: int) -> str:
    """The job that a Spark job is part of; the same rule as `Control.jobOf`."""
    for label, kind in _KINDS.items():
        if label in properties:
            return f"{kind} {properties[label]}"
    return f"spark {spark_job}"
