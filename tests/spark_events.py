"""Events of Spark's logs, written by hand, and what the importer makes of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
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


def gone(name: str, at: int) -> Event:
    return event("ExecutorRemoved", **{"Timestamp": EPOCH + at, "Executor ID": name})


def closing(at: int = 10**7) -> Event:
    return event("ApplicationEnd", Timestamp=EPOCH + at)


def properties(**settings: str) -> Event:
    """Settings of the application, with _ for a dot where no dot is in the name."""
    named = {
        name if "." in name else name.replace("_", "."): value for name, value in settings.items()
    }
    return event("EnvironmentUpdate", **{"Spark Properties": named})


def profile(
    number: int, task: Mapping[str, float], executor: Mapping[str, float] | None = None
) -> Event:
    """A resource profile: what a task and an executor of it have."""

    def requests(amounts: Mapping[str, float]) -> dict[str, dict[str, object]]:
        return {name: {"Resource Name": name, "Amount": n} for name, n in amounts.items()}

    fields = {"Executor Resource Requests": requests(executor or {})}
    fields |= {"Task Resource Requests": requests(task)}
    return event("ResourceProfileAdded", **{"Resource Profile Id": number}, **fields)


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


def sql_job(
    number: int,
    at: int,
    until: int,
    *,
    reads: Sequence[str] | None = (),
    writes: str | None = None,
    tasks: int = 1,
) -> list[Event]:
    """A query of one Spark job of tasks side by side; `reads` None: its plan is not logged."""
    return [
        query(number, f"query {number}", reads=reads, writes=writes),
        *simple_job(number, at, [(at, until)] * tasks, spark_sql_execution_id=str(number)),
        query_end(number),
    ]


def started(
    name: str = "shop", app_id: str = "app-1", at: int = 0, attempt: str | None = None
) -> list[Event]:
    fields = {"App Name": name, "App ID": app_id, "Timestamp": EPOCH + at}
    if attempt is not None:
        fields["App Attempt ID"] = attempt
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


def spark_job(
    job: int, at: int, stages: Sequence[Event], *ran: Event, ends: int | None = None, **names: str
) -> list[Event]:
    """A Spark job, whose stages are submitted before the first of their tasks in `ran`.

    It ends with the last task if `ends` does not tell otherwise.
    """
    tasks = [row for row in ran if row["Event"] == "SparkListenerTaskEnd"]
    sizes = dict(Counter((row["Stage ID"], row["Stage Attempt ID"]) for row in tasks))
    sizes |= {(row["Stage ID"], 0): row["Number of Tasks"] for row in stages}
    events = [start(job, at, stages, **names)]
    for row in ran:
        if row in tasks:
            attempt = row["Stage ID"], row["Stage Attempt ID"]
            if attempt in sizes:
                events.append(submitted(attempt[0], sizes.pop(attempt), attempt[1]))
        events.append(row)
    if ends is None:
        ends = max(row["Task Info"]["Finish Time"] for row in tasks) - EPOCH
    return [*events, end(job, ends)]


def one_task_job(job: int, at: int, until: int, **properties: str) -> list[Event]:
    """A Spark job of one stage of one task; the stage has the job's number."""
    ran = task(job, 0, at, until, kind="ResultTask")
    return spark_job(job, at, [stage(job, 1)], ran, ends=until, **properties)


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
    return spark_job(number, at, [listed], *ran, ends=ends, **names)
