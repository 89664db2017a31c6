"""The decision log: a JSON line for each plan, and one for each job when it is over."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from decima.spark.errors import AttachError
from decima.spark.live_job import LiveJob
from decima.spark.log_files import DecisionLogFiles, Lines
from decima.spark.log_rows import (
    LoggedJob,
    LoggedPlan,
    UnmeasuredJob,
    check_order,
    logged_job,
    logged_plan,
    text,
)
from decima.spark.planning import Plan
from decima.spark.reports import SessionReport
from traces import Trace, TraceError
from traces.files.errors import reason
from traces.files.lines import LineBounds, read_lines
from traces.files.numbers import is_number
from traces.files.reading import parse_json

FORMAT = "decima-decisions"
VERSION = 3
"""a job that goes on after its end has a row for each end: the last one counts"""
_READABLE = (2, VERSION)
_MAX_JOBS = 100_000
MAX_BYTES = 1 << 28
"""bound on all files of a log: twice the default of `DecisionLogFiles`"""
_BOUNDS = LineBounds(MAX_BYTES, 1 << 24, "`DecisionLogFiles` keeps a log within bounds")


class DecisionHistory(NamedTuple):
    """Content of a decision log."""

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
    """Writer of a decision log; it flushes each line, so that a crash loses none."""

    def __init__(
        self,
        where: DecisionLogFiles | Path,
        *,
        mode: str,
        policy: str,
        parameters: Mapping[str, float] | None = None,
        ran: str | None = None,
        run: str | None = None,
    ) -> None:
        """Args:
            where: the file or files.
            mode: of the scheduler.
            policy: by name.
            parameters: of the policy, where they are not those that the package ships.
            ran: what really decides; None: the policy.
            run: shared by logs that are one, of processes that followed each other; None: by none.

        Raises:
            AttachError: the file cannot be written, or its path is a link.
        """
        files = DecisionLogFiles.of(where)
        header = {
            "format": FORMAT,
            "version": VERSION,
            "run": uuid.uuid4().hex if run is None else run,
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
        """Close the log; further calls have no effect."""
        with suppress(OSError):  # what a full disk did not take
            self._lines.close()

    def _write(self, row: Mapping[str, Any]) -> None:
        self._lines.write(json.dumps(row))


def job_row(job: LiveJob) -> dict[str, Any]:
    """A job as the log has it; `log_rows.logged_job` reads it."""
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
    """Return the jobs of a trace in the same form, by arrival if known; none has ended."""
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
    run: str | None = None,
) -> Callable[[], DecisionLog] | None:
    """Return a function that opens the log (arguments as of `DecisionLog`), or None if none is
    wanted.
    """
    if where is None:
        return None
    return partial(
        DecisionLog,
        DecisionLogFiles.of(where),
        mode=mode,
        policy=policy,
        parameters=parameters,
        ran=ran,
        run=run,
    )


def read_decision_log(path: Path) -> DecisionHistory:
    """Read a log of `DecisionLog`, including its rotated files.

    Raises:
        AttachError: not such a file, another version, a damaged line, impossible values, or more
            than `MAX_BYTES`; a last line that was cut short is left out.
    """
    head = _header(path)
    if head is None:
        raise AttachError(f"{path}: not a decision log of `attach(..., decision_log=...)`")
    version = head.get("version")
    if version not in _READABLE:
        known = " and ".join(map(str, _READABLE))
        raise AttachError(f"{path}: version {version!r:.40}, this reader knows {known}")
    plans: list[LoggedPlan] = []
    found: dict[tuple[str, int], LoggedJob | UnmeasuredJob] = {}
    for where, row in _rows([*_older(path, head), path]):
        with _telling(where):
            if "plan" in row:
                plans.append(logged_plan(row))
            if "job" in row:
                _add_job(row, found)
    jobs = [one for one in found.values() if isinstance(one, LoggedJob)]
    jobs.sort(key=lambda one: one.arrival_ms)
    unmeasured = [one for one in found.values() if isinstance(one, UnmeasuredJob)]
    with _telling(str(path)):
        parameters = {text(label, label): _number(of) for label, of in head["parameters"].items()}
        mode, policy, ran = (text(head[label], label) for label in ("mode", "policy", "ran"))
    return DecisionHistory(
        mode, policy, tuple(plans), tuple(jobs), parameters, ran, tuple(unmeasured)
    )


@contextmanager
def _telling(where: str) -> Iterator[None]:
    """A fault in what is read there is one line that begins with the place."""
    try:
        yield
    except (AttachError, TraceError) as error:
        raise AttachError(f"{where}: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AttachError(f"{where}: damaged: {type(error).__name__}: {error}") from error


def _number(value: object) -> float:
    if not is_number(value):
        raise AttachError(f"parameter {value!r:.60} is no finite number")
    return float(value)


def _add_job(
    row: Mapping[str, Any], found: dict[tuple[str, int], LoggedJob | UnmeasuredJob]
) -> None:
    """Take a job's row, in place of an earlier one of the same job."""
    job = logged_job(row)
    if job is not None:
        check_order(job)
    key = text(row["job"], "job"), int(row["arrival_ms"])
    found[key] = UnmeasuredJob(key[0], text(row["name"], "name")) if job is None else job
    if len(found) > _MAX_JOBS:
        raise AttachError(f"more than {_MAX_JOBS:,} jobs are not read")


def _older(path: Path, head: Mapping[str, Any]) -> list[Path]:
    """The files of the same run that were put aside, the oldest first."""
    found: list[Path] = []
    while (file := path.with_name(f"{path.name}.{len(found) + 1}")).is_file():
        try:
            first = _header(file)
        except AttachError:
            break
        if first is None or first.get("run") != head.get("run"):
            break  # of an earlier run
        found.append(file)
    return found[::-1]


def _rows(files: Sequence[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines after the headers of all files, each with its place."""
    left = MAX_BYTES
    for path in files:
        cut: AttachError | None = None
        for number, line in read_lines(path, replace(_BOUNDS, content_bytes=left), AttachError):
            left -= len(line) + 1
            if number == 1:
                continue
            if cut is not None:
                raise cut
            try:
                row = parse_json(line, f"{path}: line {number} is no JSON", AttachError)
            except AttachError as error:
                cut = error  # no fault in the last line: a process was killed while it wrote it
                continue
            if not isinstance(row, dict):
                raise AttachError(f"{path}: line {number} is no JSON object")
            yield f"{path}: line {number}", row


def _header(path: Path) -> dict[str, Any] | None:
    """The first line; None where it is not that of a decision log."""
    for _, line in read_lines(path, _BOUNDS, AttachError):
        try:
            row = parse_json(line, str(path), AttachError)
        except AttachError:
            return None
        return row if isinstance(row, dict) and row.get("format") == FORMAT else None
    return None
