"""Importer of Alibaba's cluster-trace-v2018 ``batch_task.csv`` (plain or ``.gz``).

One row is a task in Alibaba's words, which is a *stage* here: `instance_num` equal instances. The
columns, without a header, are task_name, instance_num, job_name, task_type, status, start_time,
end_time, plan_cpu (100 = one core), plan_mem (0..100, normalised to an unknown machine).

The graph is in the task name: a letter, the task's number, then the numbers of its parents
(``J3_1_2``); a name of another form (``task_LTg0MTU``, ``MergeTask``) is a stage without parents.

A job is imported whole or left out whole: a graph with gaps would have neither the true work nor
the true critical path. `SKIPPED` and `ADJUSTED` name every reason; the counts are in the metadata.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from traces.bounds import DEFAULT, TO_READ_MORE, Bounds
from traces.codecs import open_codec
from traces.errors import DamageError, TraceError
from traces.files.names import clean
from traces.files.reading import LineBounds, lines_of, opened
from traces.model import MAX_NAME, MAX_TASKS_PER_STAGE, Job, Stage
from traces.numbers import MS_PER_S
from traces.trace import Trace

SKIPPED = {
    "malformed": "a row without nine columns, or with a count or time that is no number",
    "not_terminated": "a task whose status is not Terminated",
    "bad_instances": "a task with fewer than one instance, or absurdly many",
    "bad_times": "a task without an end time, or that ends before it starts",
    "duplicate": "two tasks with the same number or name",
    "missing_parent": "a task that names a parent which the job does not have",
    "cycle": "tasks that wait for themselves or for each other",
    "too_many_tasks": "a job with more tasks than `Bounds.stages_per_job`",
    "task_too_long": "a job with a task whose instances take longer than `most_task_s`",
    "too_much_work": "a job with more instance-seconds than `most_work_s`",
}
"""reasons to leave out a job; ``malformed`` also counts rows that name no job"""

ADJUSTED = {
    "under_a_second": "tasks with equal start and end: the clock ticks in seconds, 0.5 s is taken",
    "start_at_parents_end": "tasks registered before their parents ended: they start at that end",
    "overlaps_parents": "tasks that ended before a parent did: they keep their recorded times",
    "no_instance": "tasks missing in the file of instances: estimated as without it",
}
"""changes to the imported tasks"""

SUB_SECOND_MS = 500.0
"""duration of a task that starts and ends in the same second: the middle of that second"""

TaskKey = tuple[str, str]  # job_name, task_name

_MAX_LINE = 10_000  # bytes of a row; one has about 100
_MAX_TIME_S = 10**9
_NAME = re.compile(r"[^_]*[A-Z]([0-9]{1,6})(_[0-9_]+)?(?:_Stg[0-9]+)?")


class _Task(NamedTuple):
    name: str
    instances: int
    start_s: int
    end_s: int
    cpu: float | None
    memory: float | None


class _Skip(Exception):  # noqa: N818 -- a verdict on one job, never seen outside this module
    """The job is left out; the argument is a key of `SKIPPED`."""


def read_alibaba(
    path: str | Path,
    *,
    limit: int | None = None,
    machine_memory_mb: float | None = None,
    registered_starts: bool = True,
    instances: str | Path | None = None,
    most_task_s: float | None = None,
    most_work_s: float | None = None,
    limits: Bounds = DEFAULT,
) -> Trace:
    """Read jobs from a batch_task file.

    Without `instances` stage durations are an estimate: all instances of a task are taken to run at
    once, for as long as the task did. They hold for every wave and executor level. Arrivals are the
    earliest start of a job's tasks, relative to the first job.

    Args:
        path: ``batch_task.csv`` or ``batch_task.csv.gz``; read as a stream.
        limit: take only the first `limit` job names of the file, which bounds the memory. Their
            rows are collected from the whole file, since it does not keep a job's rows together.
            Jobs left out for a defect count towards the limit.
        machine_memory_mb: the size of a machine; plan_mem is relative to it. Without it the
            stages have no memory demand, as the trace does not define 100.
        registered_starts: start_time is when a task was registered, not when it began (its
            dependants often share it), so a task is taken to begin once its parents have ended.
            False keeps the recorded start.
        instances: file of the instances' durations for `mean_seconds`, plain or ``.gz``;
            the mean over a task's instances is the duration of its stage.
        most_task_s: leave out jobs with a longer task. A handful of them hold most of the trace's
            work.
        most_work_s: leave out jobs whose instances take longer in all.
        limits: bounds on the file; jobs with too many tasks are left out whole.

    Raises:
        TraceError: the file cannot be read, exceeds `limits`, or holds no usable job.
    """
    for label, value in (
        ("limit", limit),
        ("machine memory", machine_memory_mb),
        ("longest task", most_task_s),
        ("most work", most_work_s),
    ):
        if value is not None and not 0 < value < float("inf"):
            raise TraceError(f"{label} {value} must be positive and finite")
    skipped: Counter[str] = Counter(dict.fromkeys(SKIPPED, 0))
    adjusted: Counter[str] = Counter(dict.fromkeys(ADJUSTED, 0))
    path = Path(path)
    rows_of = _collect(path, limit, limits, skipped)
    measured_s = None
    if instances is not None:
        instances = Path(instances)
        with _open(instances, limits.content_bytes) as lines:
            measured_s = mean_seconds(lines, rows_of)
        if not measured_s:
            raise TraceError(f"{instances}: no duration of an instance of any of the jobs")
    jobs: list[Job] = []
    for name, rows in rows_of.items():
        try:
            if not rows:
                raise _Skip("too_many_tasks")
            job = _job(name, rows, machine_memory_mb, registered_starts, measured_s, adjusted)
            longest_ms = max(stage.mean_ms for stage in job.stages)
            if most_task_s is not None and longest_ms > most_task_s * MS_PER_S:
                raise _Skip("task_too_long")
            if most_work_s is not None and job.work_ms > most_work_s * MS_PER_S:
                raise _Skip("too_much_work")
            jobs.append(job)
        except _Skip as verdict:
            skipped[str(verdict)] += 1
    reasons_to_skip = {reason: count for reason, count in skipped.items() if count}
    if not jobs:
        reasons = ", ".join(f"{count} {reason}" for reason, count in reasons_to_skip.items())
        raise TraceError(
            f"{path}: no usable job of batch_task.csv of Alibaba's trace of 2018 (left out: "
            f"{reasons or 'none, the file is empty'})"
        )
    metadata = {
        "format": "alibaba-2018",
        "source": clean(path.name),
        "skipped": reasons_to_skip,
        "adjusted": {reason: count for reason, count in adjusted.items() if count},
        "durations": "estimate: instances of a task run at once, for as long as the task"
        if instances is None
        else f"mean over the instances of a task, from {clean(instances.name)}",
    }
    earliest = min(job.arrival_ms or 0.0 for job in jobs)
    from_zero = tuple(replace(job, arrival_ms=(job.arrival_ms or 0.0) - earliest) for job in jobs)
    return Trace(clean(path.name.split(".")[0]), from_zero, metadata)


def _collect(
    path: Path, limit: int | None, limits: Bounds, skipped: Counter[str]
) -> Mapping[str, Sequence[str]]:
    """Return the rows by job name, in the order of names, without jobs that are too large."""
    rows_of: dict[str, list[str]] = {}
    too_large: set[str] = set()
    held = held_bytes = 0
    with _open(path, limits.content_bytes) as lines:
        for line in lines:
            cells = line.split(",", 3)
            name = clean(cells[2].strip()) if len(cells) > 2 else ""
            if not name:
                skipped["malformed"] += bool(line.strip())
                continue
            if name not in rows_of and limit is not None and len(rows_of) >= limit:
                continue
            rows = rows_of.setdefault(name, [])
            if name in too_large:
                continue
            rows.append(line)
            held, held_bytes = held + 1, held_bytes + len(line)
            if len(rows) > limits.stages_per_job:
                held, held_bytes = held - len(rows), held_bytes - sum(map(len, rows))
                too_large.add(name)
                rows.clear()
            if held > limits.stages or held_bytes > limits.file_bytes:
                raise TraceError(
                    f"{path}: more than {limits.stages:,} tasks or {limits.file_bytes:,} bytes of "
                    f"them: take fewer jobs with a limit ({TO_READ_MORE})"
                )
    return rows_of


@contextmanager
def _open(path: Path, max_bytes: int) -> Iterator[Iterator[str]]:
    """Lines of a plain or compressed file; a fault while they are read names the file."""
    bounds = LineBounds(max_bytes, _MAX_LINE, TO_READ_MORE)
    try:
        with opened(path, TraceError) as stream:
            lines = lines_of(open_codec(stream), str(path), bounds, TraceError)
            yield (line.decode("utf-8", "replace").rstrip("\r") for _, line in lines)
    except DamageError as error:
        raise TraceError(f"{path}: damaged or truncated: {error}") from error


def _job(
    name: str,
    rows: Sequence[str],
    machine_memory_mb: float | None,
    registered_starts: bool,
    measured_s: Mapping[TaskKey, float] | None,
    adjusted: Counter[str],
) -> Job:
    tasks = [_task(row.split(",")) for row in rows]
    parents = _parents([task.name for task in tasks])
    duration_ms, changes = _durations_ms(tasks, parents, registered_starts)
    if measured_s is not None:
        duration_ms, changes = _measured_ms(name, tasks, measured_s, duration_ms)
    stages = tuple(
        Stage(
            name=clean(task.name, MAX_NAME),
            num_tasks=task.instances,
            parents=parents[index],
            durations=Stage.fixed("", 1, duration_ms[index]).durations,
            cpu=task.cpu,
            memory_mb=None
            if task.memory is None or machine_memory_mb is None
            else task.memory / 100.0 * machine_memory_mb,
        )
        for index, task in enumerate(tasks)
    )
    try:
        job = Job(name, stages, min(task.start_s for task in tasks) * MS_PER_S)
    except TraceError as error:  # names, parents and values were checked: only a cycle is left
        raise _Skip("cycle") from error
    adjusted.update(changes)
    return job


def _task(row: Sequence[str]) -> _Task:
    if len(row) != 9 or not row[0].strip():
        raise _Skip("malformed")
    if row[4].strip() != "Terminated":
        raise _Skip("not_terminated")
    try:
        instances = int(row[1])
        start_s, end_s = int(row[5]), int(row[6] or 0)
        cpu = float(row[7]) / 100.0 if row[7].strip() else None
        memory = float(row[8]) if row[8].strip() else None
    except ValueError as error:
        raise _Skip("malformed") from error
    if not all(demand is None or 0 <= demand < float("inf") for demand in (cpu, memory)):
        raise _Skip("malformed")
    if not 1 <= instances <= MAX_TASKS_PER_STAGE:
        raise _Skip("bad_instances")
    if end_s <= 0 or not 0 <= start_s <= end_s <= _MAX_TIME_S:
        raise _Skip("bad_times")
    return _Task(row[0].strip(), instances, start_s, end_s, cpu, memory)


def _parents(names: Sequence[str]) -> list[tuple[int, ...]]:
    """Parse the positions of each task's parents from the task names."""
    matches = [_NAME.fullmatch(name) for name in names]
    index_of = {int(match[1]): index for index, match in enumerate(matches) if match}
    numbered = sum(match is not None for match in matches)
    if len(index_of) < numbered or len(set(names)) < len(names):
        raise _Skip("duplicate")
    parents: list[tuple[int, ...]] = []
    for index, match in enumerate(matches):
        numbers = (match[2] or "").split("_") if match else []
        named = dict.fromkeys(int(number) for number in numbers if number)
        if any(number not in index_of for number in named):
            raise _Skip("missing_parent")
        parents.append(tuple(index_of[number] for number in named))
        if index in parents[index]:
            raise _Skip("cycle")
    return parents


def _durations_ms(
    tasks: Sequence[_Task], parents: Sequence[tuple[int, ...]], registered_starts: bool
) -> tuple[list[float], Counter[str]]:
    """Return each task's duration, and the number of adjusted ones by reason."""
    changes = Counter[str]()
    durations: list[float] = []
    for task, above in zip(tasks, parents, strict=True):
        begin = task.start_s
        parents_end = max((tasks[parent].end_s for parent in above), default=begin)
        if registered_starts and parents_end > task.end_s:
            changes["overlaps_parents"] += 1
        elif registered_starts and parents_end > begin:
            changes["start_at_parents_end"] += 1
            begin = parents_end
        if begin == task.end_s:
            changes["under_a_second"] += 1
        durations.append((task.end_s - begin) * MS_PER_S or SUB_SECOND_MS)
    return durations, changes


def _measured_ms(
    job: str, tasks: Sequence[_Task], measured_s: Mapping[TaskKey, float], estimate_ms: list[float]
) -> tuple[list[float], Counter[str]]:
    """Return the mean duration of instances, or the estimate where none is known."""
    changes = Counter[str]()
    durations: list[float] = []
    for task, estimated_ms in zip(tasks, estimate_ms, strict=True):
        seconds = measured_s.get((job, task.name))
        changes["no_instance"] += seconds is None
        changes["under_a_second"] += seconds == 0
        durations.append(estimated_ms if seconds is None else seconds * MS_PER_S or SUB_SECOND_MS)
    return durations, changes


# --- durations of instances ----------------------------------------------------------------------


def mean_seconds(lines: Iterable[str], jobs: Container[str]) -> Mapping[TaskKey, float]:
    """Return the mean seconds of the instances of each task of `jobs`, which bound the memory.

    Lines are of ``batch_instance.csv``, of whose 14 columns 2, 3, 5, 6 and 7 are read: task_name,
    job_name, status, start_time, end_time (seconds). Or they are of a file of means: job_name,
    task_name, mean seconds. They may come in any order; unreadable ones are skipped, as headers.
    """
    total: dict[TaskKey, float] = defaultdict(float)
    count: dict[TaskKey, int] = defaultdict(int)
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 3:
            job, task = cells[:2]
            seconds = _number(cells[2])
        elif len(cells) >= 7 and cells[4] == "Terminated":
            task, job = cells[1:3]
            start_s, end_s = _number(cells[5]), _number(cells[6])
            seconds = end_s - start_s if 0 < start_s <= end_s else math.nan
        else:
            continue
        key = clean(job), task
        if seconds >= 0 and key[0] in jobs:
            total[key] += seconds
            count[key] += 1
    return {key: seconds / count[key] for key, seconds in total.items()}


def _number(text: str) -> float:
    """Return the finite number in a cell, else NaN."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
