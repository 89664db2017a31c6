"""The decision log: a JSON line for each plan, and one for each job when it is over."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from decima.spark.errors import AttachError
from decima.spark.jobs import LiveJob
from decima.spark.planning import Plan
from decima.spark.reports import Report, TaskSet
from files.names import clean
from traces import Job, Stage

LOG = logging.getLogger("decima.spark")

FORMAT = "decima-decisions"
VERSION = 1
_MAX_JOBS = 100_000


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


class LoggedJob(NamedTuple):
    """A job as it ran."""

    key: str
    job: Job
    """stages that ran, whose tasks all take the mean that was measured"""
    arrival_ms: int
    completion_ms: int | None
    """None: it was still running"""


class Decisions(NamedTuple):
    """What a decision log holds."""

    mode: str
    policy: str
    plans: tuple[LoggedPlan, ...]
    jobs: tuple[LoggedJob, ...]
    """by arrival"""


class DecisionLog:
    """Writes a decision log; every line is flushed, so that a crash loses none."""

    def __init__(self, path: Path, *, mode: str, policy: str) -> None:
        """Raises:
        AttachError: the file cannot be written.
        """
        try:
            self._file: IO[str] = path.open("w", encoding="utf-8")
        except OSError as error:
            raise AttachError(f"decision log {path}: {error.strerror or error}") from error
        self._is_broken = False
        self._write({"format": FORMAT, "version": VERSION, "mode": mode, "policy": policy})

    def note_plan(
        self, number: int, report: Report, plan: Plan, applied_ms: tuple[int, int]
    ) -> None:
        """One plan."""
        self._write(
            {
                "plan": number,
                "time_ms": report.time_ms,
                "applied_ms": applied_ms,
                "slots": report.slots,
                "by": plan.by,
                "fault": plan.fault,
                "sets": report.sets,
                "chosen": plan.chosen,
                "limits": plan.limits,
            }
        )

    def note_jobs(self, jobs: Iterable[LiveJob]) -> None:
        """Jobs that are over, or that run while the scheduler lets go."""
        for job in jobs:
            stages = [
                {
                    "num_tasks": stage.all_tasks,
                    "parents": sorted(stage.parents),
                    "mean_ms": stage.measured_ms / stage.measured if stage.measured else None,
                }
                for stage in job.stages
            ]
            self._write(
                {
                    "job": job.key,
                    "name": job.name,
                    "arrival_ms": job.arrival_ms,
                    "completion_ms": None if job.is_active else job.done_ms,
                    "stages": stages,
                }
            )

    def close(self) -> None:
        """Twice does no harm."""
        with suppress(OSError):  # what a full disk did not take
            self._file.close()

    def _write(self, row: Mapping[str, Any]) -> None:
        if self._is_broken:
            return
        try:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        except (OSError, ValueError) as error:  # ValueError: it is closed
            # A full disk must not take the scheduler along.
            self._is_broken = True
            LOG.warning("decision log %s ends here: %s", self._file.name, error)


def read_decision_log(path: Path) -> Decisions:
    """What `DecisionLog` wrote.

    Raises:
        AttachError: not such a file, another version, or a damaged line; a last line that was cut
            short is left out.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AttachError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    rows = _rows(path, lines)
    if not rows or rows[0].get("format") != FORMAT:
        raise AttachError(f"{path}: not a decision log of `attach(..., decision_log=...)`")
    head, *others = rows
    if head.get("version") != VERSION:
        raise AttachError(f"{path}: version {head.get('version')!r}, this reader knows {VERSION}")
    try:
        plans = tuple(_plan(row) for row in others if "plan" in row)
        jobs = [one for one in (_job(row) for row in others if "job" in row) if one is not None]
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise AttachError(f"{path}: damaged: {type(error).__name__}: {error}") from error
    if len(jobs) > _MAX_JOBS:
        raise AttachError(f"{path}: {len(jobs):,} jobs, at most {_MAX_JOBS:,} are read")
    jobs.sort(key=lambda one: one.arrival_ms)
    return Decisions(str(head.get("mode")), str(head.get("policy")), plans, tuple(jobs))


def _rows(path: Path, lines: list[str]) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines) and number > 1:
                break
            raise AttachError(f"{path}: line {number} is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise AttachError(f"{path}: line {number} is no JSON object")
        found.append(row)
    return found


def _plan(row: Mapping[str, Any]) -> LoggedPlan:
    before_ms, after_ms = row["applied_ms"]
    return LoggedPlan(
        int(row["plan"]),
        int(row["time_ms"]),
        (int(before_ms), int(after_ms)),
        int(row["slots"]),
        str(row["by"]),
        tuple(_task_set(*one) for one in row["sets"]),
        tuple(int(stage) for stage in row["chosen"]),
        {str(job): int(limit) for job, limit in row["limits"].items()},
        None if row["fault"] is None else str(row["fault"]),
    )


def _task_set(stage: int, attempt: int, job: str, *counts: int) -> TaskSet:
    num_tasks, successful, running, is_zombie = counts
    return TaskSet(
        int(stage), int(attempt), str(job), int(num_tasks), int(successful), int(running),
        bool(is_zombie),
    )  # fmt: skip


def _job(row: Mapping[str, Any]) -> LoggedJob | None:
    """None for a job of which nothing ran. A stage that never ran is left out: it was skipped."""
    kept: dict[int, int] = {}
    stages: list[Stage] = []
    for number, stage in enumerate(row["stages"]):
        if stage["mean_ms"] is not None:
            kept[number] = len(kept)
    for number in kept:
        stage = row["stages"][number]
        parents = [kept[parent] for parent in stage["parents"] if parent in kept]
        took_ms = max(1.0, float(stage["mean_ms"]))
        stages.append(Stage.fixed(f"s{number}", int(stage["num_tasks"]), took_ms, parents))
    if not stages:
        return None
    completion_ms = None if row["completion_ms"] is None else int(row["completion_ms"])
    job = Job(clean(str(row["name"])), tuple(stages))
    return LoggedJob(str(row["job"]), job, int(row["arrival_ms"]), completion_ms)
