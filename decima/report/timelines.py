"""The section of timelines: which runs a page holds, and the tasks of each, packed."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from decima.report.results import Results
from decima.report.section import Section
from traces import Trace
from traces.files.errors import FileError
from traces.numbers import Float64, Int64

MOST_BYTES = 12 * 2**20  # size of a page's timelines without the two that it opens with
MOST_BLOCKS = 600_000  # blocks of these timelines, in all
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


class Timelines(NamedTuple):
    """Tasks of one or more runs of an evaluation."""

    table: pa.Table  # table of `decima evaluate --timeline`, from `read_timeline`
    trace: Trace | None  # the jobs; None: no graph of a job can be drawn


def timelines_section(results: Results, timelines: Timelines) -> Section:
    """The runs of a timeline, two at a time; FileError if it is of another evaluation."""
    table = timelines.table
    runs = ordered_runs(results, table)
    for run in runs:
        names = results.sequences[run.sequence].name
        for row in tasks_of(table, run).group_by(["job", "name"]).aggregate([]).to_pylist():
            expected = names[row["job"]] if row["job"] < len(names) else None
            if row["name"] != expected:
                raise FileError(
                    f"the timeline is of another evaluation: in sequence {run.sequence}, job "
                    f"{row['job']} is {row['name']!r:.60} there and {expected!r:.60} in the results"
                )
    # The first two runs in full; of the others, in blocks, as many as `MOST_BYTES` hold.
    word = "slot" if results.config.protocol == "session" else "executor"
    most_tasks = MOST_BLOCKS // max(1, len(runs) - 2)
    drawn = [gantt(table, run, timelines.trace, row=word) for run in runs[:2]]
    bytes_left = MOST_BYTES
    for run in runs[2:]:
        data = gantt(table, run, timelines.trace, most_tasks, row=word)
        bytes_left -= len(json.dumps(data))
        if bytes_left < 0:
            break
        drawn.append(data)
    return Section(
        anchor="timelines",
        heading="Timelines",
        template="timelines.html",
        content={
            "intro": None,
            "recorded": len(runs),
            "sequences": len({run.sequence for run in runs}),
            "evaluated": len(results.sequences),
        },
        timelines=drawn,
        graphs=graphs(drawn, timelines.trace),
    )


def ordered_runs(results: Results, table: pa.Table) -> list[Run]:
    """The runs that a timeline holds, by sequence; the first policy, then by the objective."""
    rows = table.select(["policy", "sequence"]).group_by(["policy", "sequence"]).aggregate([])
    runs = sorted(Run(str(row["policy"]), int(row["sequence"])) for row in rows.to_pylist())
    drawn = [
        run
        for run in runs
        if run.policy in results.policies and run.sequence < len(results.sequences)
    ]
    if not drawn:
        raise FileError("the timeline holds no run of these results")
    means = {name: float(policy.objective.mean()) for name, policy in results.policies.items()}
    return sorted(
        drawn, key=lambda run: (run.sequence, run.policy != results.reference, means[run.policy])
    )


def tasks_of(table: pa.Table, run: Run) -> pa.Table:
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
    job, number, executor = (
        rows[name].to_numpy().astype(np.int64) for name in ("job", "stage", "executor")
    )
    start_ms, finish_ms = (
        rows[name].to_numpy().astype(np.float64) for name in ("start_ms", "finish_ms")
    )
    jobs, first, job_row = np.unique(job, return_index=True, return_inverse=True)
    numbers, number_row = np.unique(number, return_inverse=True)
    key, stage = np.unique(job_row * len(numbers) + number_row, return_inverse=True)
    last_ms = np.full(len(key), -np.inf)
    np.maximum.at(last_ms, stage, finish_ms)
    # By stage that had tasks: its job, and its number in the job.
    stage_job, stage_number = jobs[key // len(numbers)], numbers[key % len(numbers)]
    templates = {} if trace is None else {template.name: template for template in trace.jobs}
    entries = []
    for arrival, name in zip(jobs, rows["name"].take(pa.array(first)).to_pylist(), strict=True):
        of_job = np.flatnonzero(stage_job == arrival)
        entry: dict[str, Any] = {
            "number": int(arrival),
            "name": str(name),
            "first": int(of_job[0]),
            "count": len(of_job),
        }
        template = templates.get(str(name))
        # A truncated run, or another trace of that name: only what fits is drawn.
        if template is not None and stage_number[of_job].max() < len(template.stages):
            parents = [list(part.parents) for part in template.stages]
            finish = {int(stage_number[place]): float(last_ms[place]) for place in of_job}
            entry["critical"] = critical_path(parents, finish)
        entries.append(entry)
    order = np.lexsort((start_ms, executor))
    columns = (executor[order], start_ms[order], finish_ms[order], stage[order])
    tasks = Tasks(*columns, np.ones(len(order), np.int64))
    total = len(order)
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
        "jobs": entries,
        "stages": {"job": stage_job.tolist(), "number": stage_number.tolist()},
        **pack(tasks),
    }


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
