"""The section of the timelines: which runs are drawn, and their tasks."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from decima.report.gantt import Run, gantt, runs_in, tasks_of
from decima.report.results import Results
from decima.report.section import Section
from files.errors import FileError
from traces import Trace


class Timelines(NamedTuple):
    """Tasks of one or more runs of an evaluation."""

    table: pa.Table
    """as `decima evaluate --timeline` writes it and `read_timeline` reads it"""
    trace: Trace | None
    """the jobs; None: no graph of a job can be drawn"""


def timelines_section(results: Results, timelines: Timelines) -> Section:
    """Two runs, which `shown_runs` picks.

    Raises:
        FileError: the timeline holds no run of these results, or is of another evaluation.
    """
    runs = shown_runs(results, timelines.table)
    for run in runs:
        _check_same_jobs(results, timelines.table, run)
    return Section(
        anchor="timelines",
        heading="Timelines",
        template="timelines.html",
        content={},
        timelines=[gantt(timelines.table, run, timelines.trace) for run in runs],
    )


def _check_same_jobs(results: Results, table: pa.Table, run: Run) -> None:
    """Refuse the timeline of another evaluation.

    Raises:
        FileError: a job has another name there.
    """
    names = results.sequences[run.sequence].name
    pairs = tasks_of(table, run).group_by(["job", "name"]).aggregate([])
    for row in pairs.to_pylist():
        known = names[row["job"]] if row["job"] < len(names) else None
        if row["name"] != known:
            raise FileError(
                f"the timeline is of another evaluation: in sequence {run.sequence}, job "
                f"{row['job']} is {row['name']!r:.60} there and {known!r:.60} in the results"
            )


def shown_runs(results: Results, table: pa.Table) -> list[Run]:
    """The runs to draw: of the first policy and of the other one with the least average JCT, on the
    first sequence that the timeline holds.

    Raises:
        FileError: the timeline holds no run of these results.
    """
    there = [
        run
        for run in runs_in(table)
        if run.policy in results.policies and run.sequence < len(results.sequences)
    ]
    if not there:
        raise FileError("the timeline holds no run of these results")
    sequence = min(run.sequence for run in there)
    own = {run.policy for run in there if run.sequence == sequence}
    others = [name for name in results.policies if name in own and name != results.reference]
    others.sort(key=lambda name: float(results.policies[name].figures["avg_jct_s"].mean()))
    names = ([results.reference] if results.reference in own else []) + others
    return [Run(name, sequence) for name in names[:2]]
