"""Reports of the driver's JVM, one for each wait, parsed into plain types."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple

from traces.files.reading import parse_json
from traces.spark_log.events import (
    EXECUTION_ID,
    JOB_GROUP,
    OWN_JOB,
    ROOT_EXECUTION_ID,
    JobStart,
    StageInfo,
)

_KINDS = {OWN_JOB: "job", ROOT_EXECUTION_ID: "sql", EXECUTION_ID: "sql", JOB_GROUP: "group"}


class ReportError(ValueError):
    """Error of a malformed report from the JVM; one line."""


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

    @property
    def waiting(self) -> int:
        """Tasks that no slot runs and that have not succeeded, but will start."""
        return 0 if self.is_zombie else max(0, self.num_tasks - self.successful - self.running)


class StageDone(NamedTuple):
    stage: int
    attempt: int
    succeeded: bool


class Measured(NamedTuple):
    """Tasks of a stage that succeeded."""

    stage: int
    num_tasks: int
    total_ms: float
    first_launch_ms: int | None = None
    """since the epoch; None where the source lacks it"""
    last_finish_ms: int | None = None


class JobDone(NamedTuple):
    """A Spark job ended, whichever way."""

    job: int
    time_ms: int


LiveEvent = JobStart | JobDone | StageDone


class SessionReport(NamedTuple):
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
    measured: tuple[Measured, ...] = ()
    """since the last report"""
    idle_ms: int = 0
    """time that slots have been idle beside tasks that the plan in force held back"""
    idle_slots: int = 0
    """how many did so all the time since the last report"""

    @property
    def running(self) -> int:
        return sum(one.running for one in self.sets)


def read_report(text: str) -> SessionReport:
    """Parse what `Control.await` returns.

    Raises:
        ReportError: not such a text, which is a bug of this package.
    """
    return parse_report(parse_json(text, "report of the JVM", ReportError))


def parse_report(found: Any) -> SessionReport:
    """Parse a report that has been decoded."""
    try:
        return _report(found)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        words = f"{type(error).__name__}: {error}"
        raise ReportError(f"report of the JVM: damaged: {words:.200}") from error


def _report(found: Mapping[str, Any]) -> SessionReport:
    return SessionReport(
        time_ms=found["time_ms"],
        slots=found["slots"],
        plan=found["plan"],
        lapsed=found["lapsed"],
        attached=found["attached"],
        dropped=found["dropped"],
        sets=tuple(TaskSet(*row) for row in found["sets"]),
        events=tuple(_event(row) for row in found["events"]),
        measured=tuple(Measured(*row) for row in found["measured"]),
        idle_ms=found["idle_ms"],
        idle_slots=found["idle_slots"],
    )


def _event(row: list[Any]) -> LiveEvent:
    kind, *values = row
    if kind == "S":
        return StageDone(*values)
    if kind == "E":
        return JobDone(*values)
    if kind == "J":
        job, time_ms, stages, properties, _key = values  # the key is that of `job_of`
        return JobStart(job, time_ms, tuple(_stage_info(*one) for one in stages), properties)
    raise ValueError(f"event {kind!r}")


def _stage_info(stage: int, num_tasks: int, parents: list[int], rdds: list[int]) -> StageInfo:
    return StageInfo(stage, num_tasks, tuple(parents), array("q", sorted(rdds)).tobytes())


def execution_of(properties: Mapping[str, str]) -> str | None:
    """The number of the outermost SQL execution that a Spark job is part of."""
    return properties.get(ROOT_EXECUTION_ID) or properties.get(EXECUTION_ID)


def job_of(properties: Mapping[str, str], spark_job: int) -> str:
    """The job that a Spark job is part of; the same rule as `Jobs.jobOf`."""
    for label, kind in _KINDS.items():
        if label in properties:
            return f"{kind} {properties[label]}"
    return f"spark {spark_job}"
