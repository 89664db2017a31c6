"""One run's tasks on its executors, packed for the page; what each job's stages did."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces import Trace
from traces.numbers import Float64, Int64

MOST_TASKS = 500_000
"""more are drawn as blocks: tasks of one stage that follow each other on an executor"""

_FINE_MS, _SHORT_MS, _MOST_UNITS = 0.01, 1e6, 2**32 - 1


class Run(NamedTuple):
    """Key of the tasks of one policy in one sequence."""

    policy: str
    sequence: int


class Tasks(NamedTuple):
    """T tasks or blocks by executor, then by start."""

    executor: Int64  # (T,)
    start_ms: Float64  # (T,)
    finish_ms: Float64  # (T,)
    stage: Int64  # (T,) row among the S stages of the run
    number: Int64  # (T,) of tasks in the block


class Stages(NamedTuple):
    """The S stages of a run that had tasks, by job."""

    job: Int64  # (S,)
    number: Int64  # (S,) in the job
    finish_ms: Float64  # (S,) of its last task


def runs_in(table: pa.Table) -> list[Run]:
    """The runs that a timeline table holds."""
    pairs = table.select(["policy", "sequence"]).group_by(["policy", "sequence"]).aggregate([])
    rows = pairs.to_pylist()
    return sorted(Run(str(row["policy"]), int(row["sequence"])) for row in rows)


def tasks_of(table: pa.Table, run: Run) -> pa.Table:
    """The rows of one run."""
    return table.filter(
        pc.and_(pc.equal(table["policy"], run.policy), pc.equal(table["sequence"], run.sequence))
    )


def gantt(
    table: pa.Table,
    run: Run,
    trace: Trace | None,
    most_tasks: int = MOST_TASKS,
    *,
    row: str = "executor",
) -> dict[str, Any]:
    """Data that the page needs to draw one run, in blocks where it has more than `most_tasks`.

    The trace gives the path that decided when a job ended; without it there are no graphs. `row`
    is the word for what runs the tasks.
    """
    rows = tasks_of(table, run)
    tasks, stages, names = _read(rows)
    total = len(tasks.start_ms)
    if total > most_tasks:
        tasks = merged(tasks, most_tasks)
    return {
        "policy": run.policy,
        "sequence": run.sequence,
        "executors": int(tasks.executor.max()) + 1,
        "row": row,
        "end_ms": float(tasks.finish_ms.max()),
        "tasks": total,
        "blocks": len(tasks.start_ms) if total > most_tasks else None,
        "jobs": _jobs(stages, names, trace),
        "stages": {"job": stages.job.tolist(), "number": stages.number.tolist()},
        **pack(tasks),
    }


def _read(table: pa.Table) -> tuple[Tasks, Stages, dict[int, str]]:
    """The tasks in order, their stages, and the names of the jobs."""
    job = _numbers(table, "job")
    number = _numbers(table, "stage")
    executor = _numbers(table, "executor")
    start_ms = table["start_ms"].to_numpy().astype(np.float64)
    finish_ms = table["finish_ms"].to_numpy().astype(np.float64)
    jobs, job_row = np.unique(job, return_inverse=True)
    numbers, number_row = np.unique(number, return_inverse=True)
    key, row = np.unique(job_row * len(numbers) + number_row, return_inverse=True)
    last_ms = np.full(len(key), -np.inf)
    np.maximum.at(last_ms, row, finish_ms)
    stages = Stages(jobs[key // len(numbers)], numbers[key % len(numbers)], last_ms)
    order = np.lexsort((start_ms, executor))
    tasks = Tasks(
        executor[order],
        start_ms[order],
        finish_ms[order],
        row[order],
        np.ones(len(order), np.int64),
    )
    first = np.unique(job, return_index=True)
    label = table["name"].take(pa.array(first[1])).to_pylist()
    return tasks, stages, dict(zip(first[0].tolist(), map(str, label), strict=True))


def _numbers(table: pa.Table, column: str) -> Int64:
    values: Int64 = table[column].to_numpy().astype(np.int64)
    return values


def merged(tasks: Tasks, most: int) -> Tasks:
    """Blocks of tasks of one stage that follow each other on an executor, about `most` of them.

    A block ends where another stage comes, or at the next line of a raster of the whole run, so
    that none is wider than a pixel unless its stage has the executor all the time.
    """
    width_ms = max(1e-9, float(tasks.finish_ms.max()) * (int(tasks.executor.max()) + 1) / most)
    cell = (tasks.start_ms // width_ms).astype(np.int64)
    begins = np.ones(len(cell), bool)
    begins[1:] = (
        (tasks.executor[1:] != tasks.executor[:-1])
        | (tasks.stage[1:] != tasks.stage[:-1])
        | (cell[1:] != cell[:-1])
    )
    first = np.flatnonzero(begins)
    return Tasks(
        tasks.executor[first],
        tasks.start_ms[first],
        np.maximum.reduceat(tasks.finish_ms, first),
        tasks.stage[first],
        np.add.reduceat(tasks.number, first),
    )


def pack(tasks: Tasks) -> dict[str, Any]:
    """The tasks as base64 of deflated 32-bit columns: small, and no parsing of numbers.

    Columns one after the other: where each executor's tasks begin (N + 1), start (of an executor's
    first task from 0, of the others from the start before), duration, stage, and, where tasks are
    merged, their number.
    """
    # 0.01 ms in a run of less than 1,000 s, else what 32 bits hold.
    end_ms = float(tasks.finish_ms.max())
    unit_ms = _FINE_MS if end_ms < _SHORT_MS else 1.0
    while end_ms / unit_ms > _MOST_UNITS:
        unit_ms *= 10.0
    num_executors = int(tasks.executor.max()) + 1
    first = np.searchsorted(tasks.executor, np.arange(num_executors + 1))
    start = np.rint(tasks.start_ms / unit_ms).astype(np.int64)
    duration = np.rint(tasks.finish_ms / unit_ms).astype(np.int64) - start
    step = np.diff(start, prepend=0)
    begins = first[:-1][first[:-1] < first[1:]]
    step[begins] = start[begins]
    columns = [first, step, duration, tasks.stage]
    is_merged = bool((tasks.number > 1).any())
    if is_merged:
        columns.append(tasks.number)
    raw = b"".join(values.astype("<u4").tobytes() for values in columns)
    return {
        "unit_ms": unit_ms,
        "rows": len(start),
        "merged": is_merged,
        "packed": base64.b64encode(zlib.compress(raw, 6)).decode("ascii"),
    }


def unpack(run: Mapping[str, Any]) -> Tasks:
    """The tasks that `pack` packed, times to the unit that it chose."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(run["packed"])), "<u4").astype(np.int64)
    rows, unit_ms = run["rows"], run["unit_ms"]
    num_columns = 4 if run["merged"] else 3
    first = raw[: len(raw) - num_columns * rows]
    columns = raw[len(first) :].reshape(num_columns, rows)
    executor = np.repeat(np.arange(len(first) - 1), np.diff(first))
    total = columns[0].cumsum()
    before = np.concatenate([[0], total])[first[:-1]]  # an executor's steps begin at 0
    start = total - before[executor]
    return Tasks(
        executor,
        start * unit_ms,
        (start + columns[1]) * unit_ms,
        columns[2],
        columns[3] if run["merged"] else np.ones(rows, np.int64),
    )


def _jobs(stages: Stages, names: dict[int, str], trace: Trace | None) -> list[dict[str, Any]]:
    """Each job's name, its rows among the stages, and the path that decided when it ended."""
    traced = {} if trace is None else {job.name: job for job in trace.jobs}
    entries = []
    for number, name in names.items():
        rows = np.flatnonzero(stages.job == number)
        job = traced.get(name)
        # A truncated run, or another trace of that name: only what fits is drawn.
        if job is not None and int(stages.number[rows].max()) >= len(job.stages):
            job = None
        entry: dict[str, Any] = {"number": number, "name": name, "first": int(rows[0]),
                                 "count": len(rows)}  # fmt: skip
        if job is not None:
            parents = [list(stage.parents) for stage in job.stages]
            finish = {int(stages.number[row]): float(stages.finish_ms[row]) for row in rows}
            entry["critical"] = critical_path(parents, finish)
        entries.append(entry)
    return entries


def graphs(runs: Sequence[Mapping[str, Any]], trace: Trace | None) -> dict[str, dict[str, Any]]:
    """The stages of each job of `runs` that `trace` holds, once for all runs, by name."""
    drawn = {job["name"] for run in runs for job in run["jobs"] if "critical" in job}
    return {
        job.name: {
            "stage_names": [stage.name for stage in job.stages],
            "parents": [list(stage.parents) for stage in job.stages],
        }
        for job in (() if trace is None else trace.jobs)
        if job.name in drawn
    }


def critical_path(parents: list[list[int]], finish_ms: dict[int, float]) -> list[int]:
    """The stages that decided when the job was complete: the last to finish, before it its last
    parent.
    """
    at = max(finish_ms, key=lambda stage: finish_ms[stage])
    path = [at]
    while True:
        before = [parent for parent in parents[at] if parent in finish_ms]
        if not before:
            return path[::-1]
        at = max(before, key=lambda stage: finish_ms[stage])
        path.append(at)
