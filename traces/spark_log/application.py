"""The content of one application's log, as tables."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from traces.bounds import DEFAULT, TO_READ_MORE, Bounds
from traces.codecs import open_codec
from traces.errors import DamageError, TraceError
from traces.files.errors import reading
from traces.files.reading import check_regular
from traces.model import MAX_TASKS_PER_STAGE
from traces.spark_log import events
from traces.spark_log.files import LogFile, LogFiles, Named, missing_parts
from traces.spark_log.parse import event_name, is_known, parse_event, read_lines
from traces.spark_log.summary import ImportSummary

MAX_STRANGE_LINES = 1000  # a file that begins with so many lines without one event is no event log

_CHECK_EVERY = 256  # events between two checks of the tables' sizes


class TaskTable:
    """Attempts at tasks, one row each, in the order of their ends."""

    def __init__(self) -> None:
        self.stage = array("q")
        self.partition = array("q")
        self.executor = array("i")  # index into `Application.executor_ids`
        self.launch_ms = array("q")
        self.finish_ms = array("q")
        self.outcome = array("b")
        self.speculative = array("b")

    def __len__(self) -> int:
        return len(self.stage)


@dataclass
class SparkJob:
    """One Spark job: an action, or a part of a query."""

    start: events.JobStart
    end_ms: int | None = None  # None while it has not ended
    succeeded: bool = False


@dataclass
class RanStage:
    """A stage that was submitted, all its attempts together."""

    attempts: int = 0
    first_attempt: int | None = None
    """number of the earliest attempt seen; above 0 only what was lost ran again"""
    num_tasks: int = 0
    """of its largest attempt"""
    is_map: bool = False
    """whether it wrote a shuffle, so that later jobs may skip it"""


@dataclass
class Executor:
    """A process that runs tasks."""

    cores: int | None = None  # None where the log lacks its start
    resources: Mapping[str, int] = field(default_factory=dict)
    """how many of each it has, such as GPUs"""
    profile: int = 0
    """number of the resource profile that it was requested for"""
    added_ms: int | None = None
    removed_ms: int | None = None


@dataclass
class Application:
    """Tables of one log."""

    path: Named
    spark_version: str | None = None
    name: str | None = None
    app_id: str | None = None
    attempt: str | None = None
    rollovers: set[int] = field(default_factory=set)
    """numbers of the files that Databricks wrote, from 0"""
    properties: dict[str, str] = field(default_factory=dict)
    executor_ids: dict[str, int] = field(default_factory=dict)
    executors: list[Executor] = field(default_factory=list)
    profiles: dict[int, events.ProfileAdded] = field(default_factory=dict)
    """resource profiles by number"""
    sql: dict[int, events.SqlStart] = field(default_factory=dict)
    jobs: dict[int, SparkJob] = field(default_factory=dict)
    listed: dict[int, events.StageInfo] = field(default_factory=dict)
    """stages by id, as the first Spark job with them lists them"""
    first_job: dict[int, int] = field(default_factory=dict)
    """the Spark job that lists a stage first"""
    ran: dict[int, RanStage] = field(default_factory=dict)
    tasks: TaskTable = field(default_factory=TaskTable)
    sql_failed: dict[int, bool] = field(default_factory=dict)
    """SQL executions that ended: whether with an error"""
    begin_ms: int | None = None
    """None where the log lacks its start"""
    end_ms: int | None = None
    """None where the log is not written to its end"""

    def add(self, event: events.Event) -> None:  # noqa: C901 - one case for each event
        """Take in one event."""
        match event:
            case events.TaskEnd():
                if event.outcome is events.Outcome.RESUBMITTED:
                    return
                self.ran.setdefault(event.stage, RanStage()).is_map |= event.is_map
                tasks = self.tasks
                tasks.stage.append(event.stage)
                tasks.partition.append(event.partition)
                tasks.executor.append(self._executor(event.executor))
                tasks.launch_ms.append(event.launch_ms)
                tasks.finish_ms.append(event.finish_ms)
                tasks.outcome.append(event.outcome)
                tasks.speculative.append(event.speculative)
            case events.StageSubmitted(stage, attempt, num_tasks):
                ran = self.ran.setdefault(stage, RanStage())
                ran.attempts += 1
                ran.num_tasks = max(ran.num_tasks, min(num_tasks, MAX_TASKS_PER_STAGE))
                first = ran.first_attempt
                ran.first_attempt = attempt if first is None else min(first, attempt)
            case events.JobStart():
                self.jobs.setdefault(event.job, SparkJob(event))
                for info in event.stages:
                    self.listed.setdefault(info.stage, info)
                    self.first_job.setdefault(info.stage, event.job)
            case events.JobEnd(job, time_ms, succeeded):
                if job in self.jobs:
                    self.jobs[job].end_ms = time_ms
                    self.jobs[job].succeeded = succeeded
            case events.SqlStart(execution):
                self.sql[execution] = event
            case events.SqlEnd(execution, failed):
                self.sql_failed[execution] = failed
            case events.ApplicationEnd(time_ms):
                self.end_ms = time_ms
            case events.ExecutorAdded(name, time_ms, cores, resources, profile):
                executor = self.executors[self._executor(name)]
                executor.cores, executor.added_ms = cores, time_ms
                executor.resources, executor.profile = resources, profile
            case events.ProfileAdded(profile):
                self.profiles[profile] = event
            case events.ExecutorRemoved(name, time_ms):
                self.executors[self._executor(name)].removed_ms = time_ms
            case events.Environment(properties):
                self.properties.update(properties)
            case events.ApplicationStart(name, app_id, time_ms, attempt):
                self.name, self.app_id, self.attempt = name, app_id, attempt
                self.begin_ms = time_ms
            case events.LogStart(version):
                self.spark_version = version
            case events.LogPart(number, version):
                self.spark_version = version or self.spark_version
                if number is not None:
                    self.rollovers.add(number)

    def excess(self, limits: Bounds) -> str | None:
        """The bound that the tables exceed, if one."""
        for label, count, most in (
            ("tasks", len(self.tasks), limits.values),
            ("stages", len(self.listed) + len(self.ran), 2 * limits.stages),
            ("Spark jobs", len(self.jobs) + len(self.sql), 2 * limits.stages),
            ("executors", len(self.executors), limits.stages),
            ("resource profiles", len(self.profiles), limits.stages),
        ):
            if count > most:
                return f"more than {most:,} {label} ({TO_READ_MORE})"
        return None

    def _executor(self, name: str) -> int:
        index = self.executor_ids.setdefault(name, len(self.executors))
        if index == len(self.executors):
            self.executors.append(Executor())
        return index


def read_application(
    log: LogFiles, summary: ImportSummary, limits: Bounds = DEFAULT
) -> Application:
    """Read the files of one application; lines left out are counted in `summary`.

    Reading ends where a bound of `limits` is met, as if the log broke off there.
    """
    application = Application(log.path)
    before_first: list[tuple[str, str]] = []  # counted only if this is an event log at all
    count = 0
    for path, number, name, record in _records(log.files, summary, limits):
        if isinstance(record, DamageError):
            fault = f"{path}:{number}", str(record)
            if count > 0:
                summary.skip_line(*fault)
            elif len(before_first) < MAX_STRANGE_LINES:
                before_first.append(fault)
            else:
                break
            continue
        count += 1
        if record is not None:
            application.add(record)
        elif not is_known(name):
            summary.count_unknown(name)
        excess = None
        if count % _CHECK_EVERY == 0 or isinstance(record, events.JobStart):
            excess = application.excess(limits)
        if excess is not None:
            summary.skip_line(f"{path}:{number}", f"{excess}, the rest of the log is not read")
            break
    if count == 0:
        where, reason = before_first[0] if before_first else (log.path, "the file is empty")
        raise TraceError(f"{where}: not a Spark event log: {reason}")
    for fault in before_first:
        summary.skip_line(*fault)
    missing = missing_parts((file.name for file in log.files), application.rollovers)
    if missing is not None:
        summary.miss_parts(f"{log.path}: {missing.words}", missing.number)
    summary.events += count
    return application


def _records(
    files: Sequence[LogFile], summary: ImportSummary, limits: Bounds
) -> Iterator[tuple[LogFile, int, str, events.Event | DamageError | None]]:
    """Yield (file, line, type, event) of each line; the event is None if unused, or a fault.

    Of two files that are the same part of a log the second is left out.
    """
    parts: set[int] = set()
    for path in files:
        if isinstance(path, Path):
            check_regular(path, TraceError)
        with reading(path, TraceError), path.open("rb") as stream:
            pieces = _counted(open_codec(stream), summary, limits.content_bytes)
            for number, line in read_lines(pieces):
                name, record = _record(line)
                if isinstance(record, events.LogPart) and record.number is not None:
                    if record.number in parts:
                        summary.skip_file(f"{path}: part {record.number + 1} was read before")
                        break
                    parts.add(record.number)
                yield path, number, name, record


def _record(line: bytes | DamageError) -> tuple[str, events.Event | DamageError | None]:
    if isinstance(line, DamageError):
        return "", line
    try:
        name = event_name(line)
        return name, parse_event(name, line)
    except DamageError as error:
        return "", error


def _counted(pieces: Iterator[bytes], summary: ImportSummary, max_bytes: int) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        summary.bytes_read += len(piece)
        size += len(piece)
        if size > max_bytes:
            raise DamageError(
                f"the file unfolds to more than {max_bytes:,} bytes ({TO_READ_MORE}), "
                "the rest is not read"
            )
        yield piece
