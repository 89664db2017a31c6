"""The decision log: a JSON line for each plan, and one for each job when it is over.

The JVM writes it (`decima/spark/java/plugin/DecisionLog.java`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from decima.spark.bounds import LOG_FORMAT, LOG_VERSION, check_count
from decima.spark.errors import AttachError
from decima.spark.log_rows import (
    LoggedJob,
    LoggedPlan,
    UnmeasuredJob,
    check_order,
    logged_job,
    logged_plan,
    text,
)
from traces import Trace, TraceError
from traces.files.numbers import is_number
from traces.files.reading import LineBounds, parse_json, read_lines

MODE_APPLICATIONS = "applications"
"""mode of a coordinator's log: executors move between applications"""
_READABLE = (2, LOG_VERSION)
_MAX_JOBS = 100_000
MAX_BYTES = 1 << 28
"""bound on all files of a log: twice the default of `DecisionLogFiles`"""
_BOUNDS = LineBounds(MAX_BYTES, 1 << 24, "`DecisionLogFiles` keeps a log within bounds")


@dataclass(frozen=True)
class DecisionLogFiles:
    """Path and size bounds of a decision log.

    The file is PATH. When it is full it becomes PATH.1, what was PATH.1 becomes PATH.2, and so on;
    the oldest goes. Each begins with the same header. What an earlier session has left is put aside
    likewise.

    Raises:
        AttachError: a bound makes no sense.
    """

    path: Path
    """of the newest lines"""
    max_bytes: int = 16 << 20
    """of each file"""
    files: int = 8
    """number of files, 2 or more; 8 of 16 MiB hold some 200,000 plans"""

    def __post_init__(self) -> None:
        check_count("decision log: files", self.files, 2)
        check_count("decision log: max_bytes", self.max_bytes, 1)

    @property
    def all(self) -> list[Path]:
        """Paths of all files, the newest first."""
        names = [self.path.name, *(f"{self.path.name}.{n}" for n in range(1, self.files))]
        return [self.path.with_name(name) for name in names]

    @classmethod
    def of(cls, where: DecisionLogFiles | Path | str) -> DecisionLogFiles:
        """Return the files of a path, with the default bounds."""
        return where if isinstance(where, DecisionLogFiles) else cls(Path(where))


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


def prior_rows(trace: Trace) -> list[dict[str, Any]]:
    """Return the jobs of a trace as lines of a log, by arrival if known; none has ended."""
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
        for job in sorted(trace.jobs, key=lambda other: other.arrival_ms or 0.0)
    ]


def read_decision_log(path: Path) -> DecisionHistory:
    """Read a decision log, including its rotated files.

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
    jobs = [job for job in found.values() if isinstance(job, LoggedJob)]
    jobs.sort(key=lambda job: job.arrival_ms)
    unmeasured = [job for job in found.values() if isinstance(job, UnmeasuredJob)]
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
        return row if isinstance(row, dict) and row.get("format") == LOG_FORMAT else None
    return None
