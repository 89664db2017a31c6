"""The content of one application's log, as tables."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from traces.bounds import DEFAULT, TO_READ_MORE, Bounds
from traces.codecs import open_codec
from traces.errors import DamageError, TraceError
from traces.files.errors import reading
from traces.files.reading import check_regular
from traces.model import MAX_TASKS_PER_STAGE
from traces.spark_log.events import (
    JOB_START,
    LISTENER,
    MAX_CORES,
    OUTCOMES,
    SQL,
    USED,
    Outcome,
    amounts_of,
    clean_text,
    damage_of,
    event_name,
    is_known,
    maybe_text,
    properties_of,
    read_lines,
    record_of,
    time_stamp,
    whole,
)
from traces.spark_log.files import LogFile, LogFiles, Named, missing_parts
from traces.spark_log.plans import UNKNOWN_USE, DataUse, data_use
from traces.spark_log.summary import ImportSummary

MAX_STRANGE_LINES = 1000  # a file that begins with so many lines without one event is no event log

_STORES = ("Use Memory", "Use Disk", "Use Off Heap", "Use ExternalBlockStore")
READING_SCOPE = re.compile(
    r'"name":"(?:Scan (?!ExistingRDD|OneRow)|BatchScan|textFile|wholeTextFiles|binaryFiles|'
    r"binaryRecords|hadoopFile|hadoopRDD|newAPIHadoop|sequenceFile|objectFile)"
)
"""scopes of RDDs that read files"""

_CHECK_EVERY = 256  # events between two checks of the tables' sizes


class RepeatedPartError(Exception):
    """A file is a part of a log that was read before; the argument is its number, from 0."""


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


class StoredRdd(NamedTuple):
    """An RDD that is persisted or has a checkpoint."""

    rdd: int
    partitions: int


class StageInfo(NamedTuple):
    """A stage as a Spark job lists it, whether or not it will run."""

    stage: int
    num_tasks: int
    parents: tuple[int, ...]
    rdds: bytes
    """the sorted ids of its RDDs, packed: the same for a skipped stage and the one that ran"""
    profile: int
    """number of its resource profile"""
    barrier: bool
    """whether its tasks start all at once"""
    place: str
    """the action and where the program calls it: ``collect at job.py:12``"""
    stored: tuple[StoredRdd, ...]
    """those of its RDDs that Spark stores, so that later jobs may find them there"""
    reads_files: bool
    """whether one of its RDDs reads files"""

    @classmethod
    def parse(cls, info: dict[str, Any]) -> StageInfo:
        rdds = sorted(whole(rdd["RDD ID"]) for rdd in info["RDD Info"])
        place = info.get("Stage Name")
        return cls(
            whole(info["Stage ID"]),
            whole(info["Number of Tasks"]),
            tuple(whole(parent) for parent in info["Parent IDs"]),
            array("q", rdds).tobytes(),
            whole(info.get("Resource Profile Id", 0)),  # since Spark 3.1
            any(rdd.get("Barrier") is True for rdd in info["RDD Info"]),  # since Spark 2.4
            sys.intern(clean_text(place)) if isinstance(place, str) else "",
            tuple(
                StoredRdd(whole(rdd["RDD ID"]), whole(rdd.get("Number of Partitions", 0)))
                for rdd in info["RDD Info"]
                if _is_stored(rdd)
            ),
            any(READING_SCOPE.search(str(rdd.get("Scope", ""))) for rdd in info["RDD Info"]),
        )


def _is_stored(rdd: dict[str, Any]) -> bool:
    """Return whether an RDD is persisted, or its checkpoint, which is newer, is its parent."""
    level = rdd.get("Storage Level")
    is_persisted = isinstance(level, dict) and any(level.get(kind) is True for kind in _STORES)
    parents = rdd.get("Parent IDs")
    newest = max((whole(parent) for parent in parents), default=0) if parents else 0
    return is_persisted or newest > whole(rdd["RDD ID"])


@dataclass
class SparkJob:
    """One Spark job: an action, or a part of a query."""

    start_ms: int
    stages: tuple[StageInfo, ...]
    """all that it needs, whether they will run or be skipped"""
    properties: Mapping[str, str]
    """those that this package reads"""
    end_ms: int | None = None
    """None while it has not ended"""
    succeeded: bool = False


class Sql(NamedTuple):
    """A SQL execution."""

    root: int | None
    description: str
    use: DataUse = UNKNOWN_USE


class Profile(NamedTuple):
    """Requests of one resource profile: amounts by resource."""

    task: Mapping[str, float]
    """what each task takes, cores as `cpus`"""
    executor: Mapping[str, float]
    """what an executor has beside its cores, as far as it is requested"""
    has_own_executors: bool = False
    """whether executors are requested for it, so that it runs on no other"""


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
    profiles: dict[int, Profile] = field(default_factory=dict)
    """resource profiles by number"""
    sql: dict[int, Sql] = field(default_factory=dict)
    jobs: dict[int, SparkJob] = field(default_factory=dict)
    listed: dict[int, StageInfo] = field(default_factory=dict)
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

    def add(self, name: str, line: bytes) -> bool:
        """Take in a line of an event of type `name`; return whether that type is used.

        DamageError: it cannot be read, nothing has changed; RepeatedPartError: it was read before.
        """
        if name not in USED:
            return False
        try:
            kind = name.removeprefix(SQL).removeprefix(LISTENER)
            self._take(kind, record_of(name, line), line)
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise damage_of(name, error) from error
        return True

    def _take(  # noqa: C901 - a case each event
        self, kind: str, record: dict[str, Any], line: bytes
    ) -> None:
        match kind:
            case "TaskEnd":
                task = record["Task Info"]
                stage, _ = whole(record["Stage ID"]), whole(record["Stage Attempt ID"])
                outcome = OUTCOMES.get(record["Task End Reason"]["Reason"], Outcome.FAILED)
                partition = task.get("Partition ID", -1)  # since Spark 3.3
                partition = whole(task["Index"] if partition == -1 else partition)
                executor_id, launch_ms = (
                    clean_text(task["Executor ID"]),
                    time_stamp(task["Launch Time"]),
                )
                # A large result is fetched after its task has left the slot; 0 means a small one.
                fetched = task.get("Getting Result Time", 0)
                finish_ms = time_stamp(task["Finish Time"] if fetched == 0 else fetched)
                is_map = record["Task Type"] == "ShuffleMapTask"
                if outcome is Outcome.RESUBMITTED:
                    return
                self.ran.setdefault(stage, RanStage()).is_map |= is_map
                tasks = self.tasks
                tasks.stage.append(stage)
                tasks.partition.append(partition)
                tasks.executor.append(self._executor(executor_id))
                tasks.launch_ms.append(launch_ms)
                tasks.finish_ms.append(finish_ms)
                tasks.outcome.append(outcome)
                tasks.speculative.append(task.get("Speculative") is True)
            case "StageSubmitted":
                info = record["Stage Info"]
                stage, attempt = whole(info["Stage ID"]), whole(info["Stage Attempt ID"])
                num_tasks = whole(info["Number of Tasks"])
                ran = self.ran.setdefault(stage, RanStage())
                ran.attempts += 1
                ran.num_tasks = max(ran.num_tasks, min(num_tasks, MAX_TASKS_PER_STAGE))
                first = ran.first_attempt
                ran.first_attempt = attempt if first is None else min(first, attempt)
            case "JobStart":
                number = whole(record["Job ID"])
                stages = tuple(StageInfo.parse(info) for info in record["Stage Infos"])
                properties = properties_of(record.get("Properties"))
                job = SparkJob(time_stamp(record["Submission Time"]), stages, properties)
                self.jobs.setdefault(number, job)
                for listed in stages:
                    self.listed.setdefault(listed.stage, listed)
                    self.first_job.setdefault(listed.stage, number)
            case "JobEnd":
                number, end_ms = whole(record["Job ID"]), time_stamp(record["Completion Time"])
                succeeded = record["Job Result"]["Result"] == "JobSucceeded"
                if number in self.jobs:
                    self.jobs[number].end_ms, self.jobs[number].succeeded = end_ms, succeeded
            case "SQLExecutionStart":
                root = record.get("rootExecutionId")
                self.sql[whole(record["executionId"])] = Sql(
                    None if root is None else whole(root),
                    clean_text(record["description"]),
                    data_use(line),
                )
            case "SQLExecutionEnd":
                # The message came with Spark 3.4; it is empty after a success.
                has_failed = record.get("errorMessage") not in (None, "")
                self.sql_failed[whole(record["executionId"])] = has_failed
            case "ExecutorAdded":
                info = record["Executor Info"]
                resources = info.get("Resources", {})  # since Spark 3.0
                added = Executor(
                    whole(info["Total Cores"], MAX_CORES),
                    {
                        clean_text(kind): len(units["addresses"])
                        for kind, units in resources.items()
                    },
                    whole(info.get("Resource Profile Id", 0)),
                    time_stamp(record["Timestamp"]),
                )
                index = self._executor(clean_text(record["Executor ID"]))
                added.removed_ms = self.executors[index].removed_ms
                self.executors[index] = added
            case "ExecutorRemoved":
                executor_id, time_ms = (
                    clean_text(record["Executor ID"]),
                    time_stamp(record["Timestamp"]),
                )
                self.executors[self._executor(executor_id)].removed_ms = time_ms
            case "ResourceProfileAdded":
                self.profiles[whole(record["Resource Profile Id"])] = Profile(
                    amounts_of(record["Task Resource Requests"]),
                    amounts_of(record["Executor Resource Requests"]),
                )
            case "EnvironmentUpdate":
                self.properties.update(properties_of(record["Spark Properties"]))
            case "ApplicationStart":
                name, app_id = clean_text(record["App Name"]), maybe_text(record.get("App ID"))
                begin_ms = time_stamp(record["Timestamp"])
                self.attempt = maybe_text(record.get("App Attempt ID"))
                self.name, self.app_id, self.begin_ms = name, app_id, begin_ms
            case "ApplicationEnd":
                self.end_ms = time_stamp(record["Timestamp"])
            case "LogStart":
                self.spark_version = clean_text(record["Spark Version"])
            case _:  # Databricks' metadata, the head of each of its files
                rollover = record.get("Rollover Number")
                version = maybe_text(record.get("Spark Version"))
                if rollover is not None:
                    if whole(rollover) in self.rollovers:
                        raise RepeatedPartError(rollover)
                    self.rollovers.add(rollover)
                self.spark_version = version or self.spark_version

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
    for path, number, name, result in _added(application, log.files, summary, limits):
        if isinstance(result, DamageError):
            fault = f"{path}:{number}", str(result)
            if count > 0:
                summary.skip_line(*fault)
            elif len(before_first) < MAX_STRANGE_LINES:
                before_first.append(fault)
            else:
                break
            continue
        count += 1
        if not result and not is_known(name):
            summary.count_unknown(name)
        excess = None
        if count % _CHECK_EVERY == 0 or name == JOB_START:
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


def _added(
    application: Application, files: Sequence[LogFile], summary: ImportSummary, limits: Bounds
) -> Iterator[tuple[LogFile, int, str, bool | DamageError]]:
    """Add each line of the files to the application; yield (file, line, type, whether it is used).

    A fault stands in place of the latter. Of two files that are the same part of a log the second
    is left out.
    """
    for path in files:
        if isinstance(path, Path):
            check_regular(path, TraceError)
        with reading(path, TraceError), path.open("rb") as stream:
            pieces = _counted(open_codec(stream), summary, limits.content_bytes)
            for number, line in read_lines(pieces):
                if isinstance(line, DamageError):
                    yield path, number, "", line
                    continue
                name = ""
                try:
                    name = event_name(line)
                    result: bool | DamageError = application.add(name, line)
                except DamageError as error:
                    result = error
                except RepeatedPartError as error:
                    summary.skip_file(f"{path}: part {error.args[0] + 1} was read before")
                    break
                yield path, number, name, result


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
