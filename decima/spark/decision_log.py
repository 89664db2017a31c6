"""The decision log: a JSON line for each plan, and one for each job when it is over.

The JVM writes it (`decima/spark/java/plugin/DecisionLog.java`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from decima.spark.settings import LOG_FORMAT, LOG_VERSION, AttachError, check_count
from traces import Job, Stage, Trace, TraceError
from traces.files.names import clean
from traces.files.numbers import MAX_TIME_MS, is_count, is_number
from traces.files.reading import LineBounds, check_format, parse_json, read_lines

MODE_APPLICATIONS = "applications"
"""mode of a coordinator's log: executors move between applications"""
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
        names = [self.path.name, *(f"{self.path.name}.{n}" for n in range(1, self.files))]
        return [self.path.with_name(name) for name in names]

    @classmethod
    def of(cls, where: DecisionLogFiles | Path | str) -> DecisionLogFiles:
        return where if isinstance(where, DecisionLogFiles) else cls(Path(where))


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
    """Read a decision log, including its rotated files, up to `MAX_BYTES`.

    AttachError says what is damaged; a last line that was cut short is left out.
    """
    head = _header(path) or {}
    words = "not a decision log of `attach(..., decision_log=...)`"
    check_format(head, path, (LOG_FORMAT, LOG_VERSION), words, AttachError)
    plans: list[LoggedPlan] = []
    jobs: dict[tuple[str, int], LoggedJob | UnmeasuredJob] = {}
    """by key and arrival: a later row replaces an earlier one"""
    for where, row in _rows([*_older(path, head), path]):
        with _at(where):
            if "plan" in row:
                plans.append(_logged_plan(row))
            if "job" in row:
                job = logged_job(row)
                if job is not None:
                    check_order(job)
                key = _text(row["job"], "job"), int(row["arrival_ms"])
                name = _text(row["name"], "name")
                jobs[key] = UnmeasuredJob(key[0], name) if job is None else job
                if len(jobs) > _MAX_JOBS:
                    raise AttachError(f"more than {_MAX_JOBS:,} jobs are not read")
    measured = [job for job in jobs.values() if isinstance(job, LoggedJob)]
    measured.sort(key=lambda job: job.arrival_ms)
    unmeasured = tuple(job for job in jobs.values() if isinstance(job, UnmeasuredJob))
    with _at(str(path)):
        parameters: dict[str, float] = {}
        for label, value in head["parameters"].items():
            if not is_number(value):
                raise AttachError(f"parameter {value!r:.60} is no finite number")
            parameters[_text(label, label)] = float(value)
        mode, policy, ran = (_text(head[label], label) for label in ("mode", "policy", "ran"))
    return DecisionHistory(mode, policy, tuple(plans), tuple(measured), parameters, ran, unmeasured)


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Make each fault in what is read one line that begins with the place."""
    try:
        yield
    except (AttachError, TraceError) as error:
        raise AttachError(f"{where}: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AttachError(f"{where}: damaged: {type(error).__name__}: {error}") from error


def _older(path: Path, head: Mapping[str, Any]) -> list[Path]:
    """The files of the same run that were put aside, the oldest first."""
    older: list[Path] = []
    while (file := path.with_name(f"{path.name}.{len(older) + 1}")).is_file():
        try:
            first = _header(file)
        except AttachError:
            break
        if first is None or first.get("run") != head.get("run"):
            break  # of an earlier run
        older.append(file)
    return older[::-1]


def _rows(files: Sequence[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines after the headers of all files, each with its place."""
    bytes_left = MAX_BYTES
    for path in files:
        cut: AttachError | None = None
        for number, line in read_lines(
            path, replace(_BOUNDS, content_bytes=bytes_left), AttachError
        ):
            bytes_left -= len(line) + 1
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


def _logged_plan(row: Mapping[str, Any]) -> LoggedPlan:
    """The plan of a line; errors as of `logged_job`."""
    before_ms, after_ms = row["applied_ms"]
    return LoggedPlan(
        _count(row["plan"], "plan"),
        _count(row["time_ms"], "time_ms"),
        (_count(before_ms, "applied_ms"), _count(after_ms, "applied_ms")),
        _count(row["slots"], "slots"),
        _text(row["by"], "by"),
        tuple(_task_set(*task_set) for task_set in row["sets"]),
        tuple(_count(stage, "chosen") for stage in row["chosen"]),
        {_text(job, "limits"): _count(limit, "limits") for job, limit in row["limits"].items()},
        None if row["fault"] is None else _text(row["fault"], "fault"),
        row.get("in_force", True) is True,  # a coordinator has no other
        None if row.get("moving_delay_ms") is None else _count(row["moving_delay_ms"], "delay"),
    )


def _task_set(stage: Any, attempt: Any, job: Any, *rest: Any) -> TaskSet:
    *counts, is_zombie = rest
    num_tasks, successful, running = (_count(count, "sets") for count in counts)
    return TaskSet(
        _count(stage, "sets"),
        _count(attempt, "sets"),
        _text(job, "sets"),
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
    ran = [number for number, stage in enumerate(row["stages"]) if stage["mean_ms"] is not None]
    place = {number: index for index, number in enumerate(ran)}
    stages: list[Stage] = []
    for number in ran:
        stage = row["stages"][number]
        parents = [place[parent] for parent in stage["parents"] if parent in place]
        if not is_number(stage["mean_ms"]) or not 0 <= stage["mean_ms"] <= MAX_TIME_MS:
            raise AttachError(
                f"mean_ms is {stage['mean_ms']!r:.60}: a time from 0 to {MAX_TIME_MS:,} is needed"
            )
        took_ms = max(1.0, float(stage["mean_ms"]))
        num_tasks = _count(stage["num_tasks"], "num_tasks")
        stages.append(Stage.fixed(f"s{number}", num_tasks, took_ms, parents))
    if not stages:
        return None
    completion_ms, own_ms = (
        None if row[label] is None else _count(row[label], label)
        for label in ("completion_ms", "own_ms")
    )
    job = Job(clean(_text(row["name"], "name")), tuple(stages))
    arrival_ms = _count(row["arrival_ms"], "arrival_ms")
    return LoggedJob(_text(row["job"], "job"), job, arrival_ms, completion_ms, own_ms)


def check_order(job: LoggedJob) -> None:
    """Refuse (AttachError) a job whose times contradict each other."""
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


def _text(value: object, label: str) -> str:
    """Return a text fit to be shown, one object for all that are equal."""
    if not isinstance(value, str):
        raise AttachError(f"{label} is {value!r:.60}: text is needed")
    return sys.intern(clean(value))


def _count(value: object, label: str) -> int:
    if not is_count(value, MAX_TIME_MS):
        raise AttachError(
            f"{label} is {value!r:.60}: a whole number from 0 to {MAX_TIME_MS:,} is needed"
        )
    return value
