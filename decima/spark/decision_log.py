"""The decision log: a JSON line for each plan, and one for each job when it is over."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from decima.spark.errors import AttachError
from decima.spark.live_job import LiveJob
from decima.spark.log_files import DecisionLogFiles, Lines
from decima.spark.planning import Plan
from decima.spark.reports import SessionReport, TaskSet
from files.errors import reason
from files.names import clean
from traces import Job, Stage, Trace

FORMAT = "decima-decisions"
VERSION = 2
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
    is_in_force: bool = True
    """False: Spark's own order was, and the plan only what the policy would have done"""


class LoggedJob(NamedTuple):
    """A job as it ran."""

    key: str
    job: Job
    """stages that ran, whose tasks all take the mean that was measured"""
    arrival_ms: int
    completion_ms: int | None
    """None: it was still running"""
    own_ms: int | None
    """of that time Spark's own (`LiveJob.own_ms`); None: it is not known"""


class UnmeasuredJob(NamedTuple):
    """A job of which no task succeeded, so that nobody knows how long one takes."""

    key: str
    name: str


class DecisionHistory(NamedTuple):
    """What a decision log holds."""

    mode: str
    policy: str
    plans: tuple[LoggedPlan, ...]
    jobs: tuple[LoggedJob, ...]
    """by arrival"""
    parameters: Mapping[str, float]
    """of the policy, where they are not those that the package ships"""
    ran: str
    """by name, what decided for Spark: the policy; in shadow mode fifo or spark_fair"""
    unmeasured: tuple[UnmeasuredJob, ...] = ()
    """not among `jobs`"""


class DecisionLog:
    """Writes a decision log; every line is flushed, so that a crash loses none."""

    def __init__(
        self,
        where: DecisionLogFiles | Path,
        *,
        mode: str,
        policy: str,
        parameters: Mapping[str, float] | None = None,
        ran: str | None = None,
    ) -> None:
        """Args:
            where: the file or files.
            mode: of the scheduler.
            policy: by name.
            parameters: of the policy, where they are not those that the package ships.
            ran: what really decides; None: the policy.

        Raises:
            AttachError: the file cannot be written, or its path is a link.
        """
        files = DecisionLogFiles.of(where)
        header = {
            "format": FORMAT,
            "version": VERSION,
            "run": uuid.uuid4().hex,
            "mode": mode,
            "policy": policy,
            "parameters": dict(parameters or {}),
            "ran": policy if ran is None else ran,
        }
        try:
            self._lines = Lines(files, json.dumps(header))
        except OSError as error:
            raise AttachError(f"decision log {files.path}: {reason(error)}") from error

    def note_plan(
        self,
        number: int,
        report: SessionReport,
        plan: Plan,
        applied_ms: tuple[int, int],
        *,
        is_in_force: bool = True,
    ) -> None:
        """One plan; arguments as the fields of `LoggedPlan`."""
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
                "in_force": is_in_force,
            }
        )

    def note_jobs(self, jobs: Iterable[LiveJob]) -> None:
        """Jobs that are over, or that run while the scheduler lets go."""
        for job in jobs:
            self._write(job_row(job))

    def close(self) -> None:
        """Twice does no harm."""
        with suppress(OSError):  # what a full disk did not take
            self._lines.close()

    def _write(self, row: Mapping[str, Any]) -> None:
        self._lines.write(json.dumps(row))


def job_row(job: LiveJob) -> dict[str, Any]:
    """A job as the log has it; `logged_job` reads it."""
    return {
        "job": job.key,
        "name": job.name,
        "arrival_ms": job.arrival_ms,
        "completion_ms": None if job.is_active else job.done_ms,
        "own_ms": job.own_ms(),
        "stages": [
            {
                "num_tasks": stage.all_tasks,
                "parents": sorted(stage.parents),
                "mean_ms": stage.measured_ms / stage.measured if stage.measured else None,
            }
            for stage in job.stages
        ],
    }


def prior_rows(trace: Trace) -> list[dict[str, Any]]:
    """The jobs of a trace in the same form, by arrival where it tells that; none has ended."""
    return [
        {
            "job": job.name,
            "name": job.name,
            "arrival_ms": round(job.arrival_ms or 0.0),
            "completion_ms": None,
            "own_ms": None,
            "stages": [
                {
                    "num_tasks": stage.num_tasks,
                    "parents": list(stage.parents),
                    "mean_ms": stage.mean_ms,
                }
                for stage in job.stages
            ],
        }
        for job in sorted(trace.jobs, key=lambda one: one.arrival_ms or 0.0)
    ]


def log_opener(
    where: DecisionLogFiles | Path | str | None,
    mode: str,
    policy: str,
    parameters: Mapping[str, float] | None,
    ran: str,
) -> Callable[[], DecisionLog] | None:
    """Opens the log of such a scheduler (arguments as of `DecisionLog`), if one is wanted."""
    if where is None:
        return None
    return partial(
        DecisionLog,
        DecisionLogFiles.of(where),
        mode=mode,
        policy=policy,
        parameters=parameters,
        ran=ran,
    )


def read_decision_log(path: Path) -> DecisionHistory:
    """What `DecisionLog` wrote, with the older files that it has put aside.

    Raises:
        AttachError: not such a file, another version, or a damaged line; a last line that was cut
            short is left out.
    """
    head, *rows = _rows(path)
    older = [row for file in _older(path, head) for row in _rows(file)[1:]]
    rows = older + rows
    try:
        plans = tuple(_plan(row) for row in rows if "plan" in row)
        jobs, unmeasured = _jobs(row for row in rows if "job" in row)
        if len(jobs) > _MAX_JOBS:
            raise AttachError(f"{path}: {len(jobs):,} jobs, at most {_MAX_JOBS:,} are read")
        jobs.sort(key=lambda one: one.arrival_ms)
        parameters = {str(label): float(value) for label, value in head["parameters"].items()}
        mode, policy, ran = str(head["mode"]), str(head["policy"]), str(head["ran"])
        return DecisionHistory(mode, policy, plans, tuple(jobs), parameters, ran, unmeasured)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, AttachError):
            raise
        raise AttachError(f"{path}: damaged: {type(error).__name__}: {error}") from error


def _jobs(
    rows: Iterable[Mapping[str, Any]],
) -> tuple[list[LoggedJob], tuple[UnmeasuredJob, ...]]:
    jobs: list[LoggedJob] = []
    unmeasured: list[UnmeasuredJob] = []
    for row in rows:
        job = logged_job(row)
        if job is None:
            unmeasured.append(UnmeasuredJob(str(row["job"]), clean(str(row["name"]))))
        else:
            jobs.append(job)
    return jobs, tuple(unmeasured)


def _older(path: Path, head: Mapping[str, Any]) -> list[Path]:
    """The files of the same run that were put aside, the oldest first."""
    found: list[Path] = []
    while (file := path.with_name(f"{path.name}.{len(found) + 1}")).is_file():
        try:
            first = _header(_lines_of(file))
        except AttachError:
            break
        if first is None or first.get("run") != head.get("run"):
            break  # of an earlier run
        found.append(file)
    return found[::-1]


def _rows(path: Path) -> list[dict[str, Any]]:
    """The header and what follows."""
    lines = _lines_of(path)
    head = _header(lines)
    if head is None:
        raise AttachError(f"{path}: not a decision log of `attach(..., decision_log=...)`")
    version = head.get("version")
    if version != VERSION:
        raise AttachError(f"{path}: version {version!r}, this reader knows {VERSION}")
    found = [head]
    for number, line in enumerate(lines[1:], 2):
        try:
            row = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                break
            raise AttachError(f"{path}: line {number} is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise AttachError(f"{path}: line {number} is no JSON object")
        found.append(row)
    return found


def _header(lines: Sequence[bytes]) -> dict[str, Any] | None:
    """The first line; None where it is not that of a decision log."""
    try:
        row = json.loads(lines[0].decode())
    except (IndexError, ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and row.get("format") == FORMAT else None


def _lines_of(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError as error:
        raise AttachError(f"{path}: {reason(error)}") from error


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
        bool(row.get("in_force", True)),  # older logs do not say
    )


def _task_set(stage: int, attempt: int, job: str, *counts: int) -> TaskSet:
    num_tasks, successful, running, is_zombie = counts
    return TaskSet(
        int(stage), int(attempt), str(job), int(num_tasks), int(successful), int(running),
        bool(is_zombie),
    )  # fmt: skip


def logged_job(row: Mapping[str, Any]) -> LoggedJob | None:
    """What `job_row` told; None for a job of which nothing ran.

    A stage that never ran is left out: it was skipped.
    """
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
    completion_ms, own_ms = (
        None if row[label] is None else int(row[label]) for label in ("completion_ms", "own_ms")
    )
    job = Job(clean(str(row["name"])), tuple(stages))
    return LoggedJob(str(row["job"]), job, int(row["arrival_ms"]), completion_ms, own_ms)
