"""Events of Spark's logs, written by hand, and what the importer makes of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from traces import Job, Trace
from traces.spark_log import GroupBy, ImportSummary, read_spark_logs

Event = dict[str, Any]
SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
EPOCH = 1_700_000_000_000


def event(name: str, **fields: Any) -> Event:
    return {"Event": name if "." in name else f"SparkListener{name}", **fields}


def stage(
    number: int, tasks: int, parents: Sequence[int] = (), rdds: Sequence[int] | None = None
) -> Event:
    """An entry of a Spark job's list of stages; by default its only RDD has the stage's number."""
    return {
        "Stage ID": number,
        "Number of Tasks": tasks,
        "RDD Info": [{"RDD ID": rdd} for rdd in (rdds if rdds is not None else [number])],
        "Parent IDs": list(parents),
    }


def start(job: int, at: int, stages: Sequence[Event], **properties: str) -> Event:
    """`properties` with _ for a dot."""
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return event(
        "JobStart",
        **{"Job ID": job, "Submission Time": EPOCH + at, "Stage Infos": list(stages)},
        Properties=named,
    )


def end(job: int, at: int, result: str = "JobSucceeded") -> Event:
    fields = {"Job ID": job, "Completion Time": EPOCH + at, "Job Result": {"Result": result}}
    return event("JobEnd", **fields)


def submitted(number: int, tasks: int, attempt: int = 0) -> Event:
    info = {"Stage ID": number, "Stage Attempt ID": attempt, "Number of Tasks": tasks}
    return event("StageSubmitted", **{"Stage Info": info})


def task(
    number: int,
    partition: int,
    launch: int,
    finish: int,
    *,
    on: str = "1",
    attempt: int = 0,
    reason: str = "Success",
    kind: str = "ShuffleMapTask",
    **info: Any,
) -> Event:
    """The end of an attempt at a task of stage `number` on executor `on`."""
    fields = {"Stage ID": number, "Stage Attempt ID": attempt, "Task Type": kind}
    times = {"Launch Time": EPOCH + launch, "Finish Time": EPOCH + finish}
    place = {"Index": partition, "Partition ID": partition, "Executor ID": on}
    extra = {key.replace("_", " "): value for key, value in info.items()}
    end_reason = {"Task End Reason": {"Reason": reason}}
    return event("TaskEnd", **fields, **end_reason, **{"Task Info": {**place, **times, **extra}})


def executor(name: str = "1", cores: int = 2, at: int = 0) -> Event:
    fields = {"Timestamp": EPOCH + at, "Executor ID": name, "Executor Info": {"Total Cores": cores}}
    return event("ExecutorAdded", **fields)


def query(
    execution: int,
    description: str,
    root: int | None = None,
    *,
    reads: Sequence[str] | None = None,
    writes: str | None = None,
) -> Event:
    """A SQL execution; with a plan that names paths if `reads` is given."""
    fields: dict[str, Any] = {"executionId": execution}
    if root is not None:
        fields["rootExecutionId"] = root
    fields |= {"description": description, "details": "..."}
    if reads is not None:
        fields["sparkPlanInfo"] = plan(reads, writes)
    return event(f"{SQL}ExecutionStart", **fields)


def plan(reads: Sequence[str], writes: str | None = None) -> Event:
    """A plan that scans files, and writes others if asked, as Spark 3.5 logs it."""
    scans = [
        {
            "nodeName": "Scan parquet ",
            "simpleString": f"FileScan parquet Location: InMemoryFileIndex(1 paths)[{path}]",
            "children": [],
            "metadata": {"Location": f"InMemoryFileIndex(1 paths)[{path}]"},
        }
        for path in reads
    ]
    if writes is None:
        return {"nodeName": "HashAggregate", "simpleString": "HashAggregate", "children": scans}
    name = "Execute InsertIntoHadoopFsRelationCommand"
    return {
        "nodeName": name,
        "simpleString": f"{name} {writes}, false, Parquet, [path={writes}], Overwrite, [id]",
        "children": scans,
    }


def query_end(execution: int, error: str = "") -> Event:
    return event(f"{SQL}ExecutionEnd", executionId=execution, time=0, errorMessage=error)


def started(name: str = "shop", app_id: str = "app-1") -> list[Event]:
    fields = {"App Name": name, "App ID": app_id, "Timestamp": EPOCH}
    return [event("LogStart", **{"Spark Version": "4.0.0"}), event("ApplicationStart", **fields)]


def text(events: Sequence[Event]) -> bytes:
    """Content of a log."""
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in events).encode()


def write(path: Path, events: Sequence[Event]) -> Path:
    path.write_bytes(text(events))
    return path


class Read:
    """Reads the events of one application as a trace."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(
        self, *events: Event, by: GroupBy = GroupBy.SQL, executors: int | None = None
    ) -> tuple[Trace, ImportSummary]:
        path = write(self._folder / "log", [*started(), *events])
        return read_spark_logs([path], group_by=by, executors=executors)


def waves(job: Job, index: int) -> list[list[float]]:
    """Durations of a stage: fresh, first, rest."""
    (level,) = job.stages[index].durations
    return [wave.tolist() for wave in level.waves]


def edges(job: Job) -> set[tuple[str, str]]:
    """(parent, child) by the numbers that Spark gave."""
    names = [stage.name.removeprefix("stage ") for stage in job.stages]
    return {(names[p], names[c]) for c, stage in enumerate(job.stages) for p in stage.parents}


def one_task_job(job: int, at: int, until: int, **properties: str) -> list[Event]:
    """A Spark job of one stage of one task; the stage has the job's number."""
    return [
        start(job, at, [stage(job, 1)], **properties),
        submitted(job, 1),
        task(job, 0, at, until, kind="ResultTask"),
        end(job, until),
    ]


def simple_job(
    number: int,
    at: int,
    tasks: Sequence[tuple[int, int] | tuple[int, int, str]],
    ends: int | None = None,
    *,
    on: str = "1",
    profile: int = 0,
    barrier: bool = False,
    **names: str,
) -> list[Event]:
    """A Spark job of one stage of tasks with these starts, ends and maybe executors."""
    listed = stage(number, len(tasks)) | {"Resource Profile Id": profile}
    listed["RDD Info"][0]["Barrier"] = barrier
    ran = [
        task(number, part, begin, until, on=place[0] if place else on)
        for part, (begin, until, *place) in enumerate(tasks)
    ]
    last = max(times[1] for times in tasks) if ends is None else ends
    return [
        start(number, at, [listed], **names),
        submitted(number, len(tasks)),
        *ran,
        end(number, last),
    ]
