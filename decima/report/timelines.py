"""The section of the timelines: which runs the page holds, and their tasks."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa

from decima.report.gantt import MOST_TASKS, Run, gantt, graphs, runs_in, tasks_of
from decima.report.results import Results
from decima.report.section import Section
from traces import Trace
from traces.files.errors import FileError

MOST_BYTES = 12 * 2**20  # size of a page's timelines without the two that it opens with
MOST_BLOCKS = 600_000  # blocks of these timelines, in all


class Timelines(NamedTuple):
    """Tasks of one or more runs of an evaluation."""

    table: pa.Table  # table of `decima evaluate --timeline`, from `read_timeline`
    trace: Trace | None  # the jobs; None: no graph of a job can be drawn


def timelines_section(results: Results, timelines: Timelines) -> Section:
    """The runs of a timeline, two at a time; FileError if it is of another evaluation."""
    runs = ordered_runs(results, timelines.table)
    for run in runs:
        _check_same_jobs(results, timelines.table, run)
    drawn = _drawn(timelines, runs, "slot" if results.is_session else "executor")
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


def _drawn(timelines: Timelines, runs: list[Run], row: str) -> list[dict[str, Any]]:
    """The first two runs in full; of the others, in blocks, as many as `MOST_BYTES` hold."""
    most_tasks = MOST_BLOCKS // max(1, len(runs) - 2)
    drawn: list[dict[str, Any]] = []
    bytes_left = MOST_BYTES
    for number, run in enumerate(runs):
        is_opening = number < 2
        most = MOST_TASKS if is_opening else most_tasks
        data = gantt(timelines.table, run, timelines.trace, most, row=row)
        if not is_opening:
            bytes_left -= len(json.dumps(data))
            if bytes_left < 0:
                break
        drawn.append(data)
    return drawn


def _check_same_jobs(results: Results, table: pa.Table, run: Run) -> None:
    """Refuse (FileError) the timeline of another evaluation: a job has another name there."""
    names = results.sequences[run.sequence].name
    pairs = tasks_of(table, run).group_by(["job", "name"]).aggregate([])
    for row in pairs.to_pylist():
        expected = names[row["job"]] if row["job"] < len(names) else None
        if row["name"] != expected:
            raise FileError(
                f"the timeline is of another evaluation: in sequence {run.sequence}, job "
                f"{row['job']} is {row['name']!r:.60} there and {expected!r:.60} in the results"
            )


def ordered_runs(results: Results, table: pa.Table) -> list[Run]:
    """The runs that a timeline holds, by sequence; the first policy, then by the objective."""
    there = [
        run
        for run in runs_in(table)
        if run.policy in results.policies and run.sequence < len(results.sequences)
    ]
    if not there:
        raise FileError("the timeline holds no run of these results")
    means = {name: float(policy.objective.mean()) for name, policy in results.policies.items()}
    return sorted(
        there, key=lambda run: (run.sequence, run.policy != results.reference, means[run.policy])
    )
