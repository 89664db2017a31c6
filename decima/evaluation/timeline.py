"""Timelines: a table with every task of an evaluation, written to and read from a file."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig, draw_sequence
from decima.evaluation.report import Report
from spark_sim.cluster import MAX_EXECUTORS
from spark_sim.tables import Table
from traces import Trace, load_trace
from traces.codecs import most_unfolded
from traces.files.errors import FileError
from traces.files.numbers import MAX_TIME_MS
from traces.files.reading import read_bytes
from traces.files.writing import written_whole
from traces.numbers import Int32
from traces.parquet import excess_of

_EVENTS = ".json.gz"
SUFFIXES = (".parquet", ".csv", _EVENTS)

_READ = (".parquet", ".csv")
_US_PER_MS = 1000.0
_COUNTED, _TIMES = ("sequence", "job", "stage", "executor"), ("start_ms", "finish_ms")
_NEEDED = {
    **dict.fromkeys(("policy", "name"), pa.string()),
    **dict.fromkeys(_COUNTED, pa.int64()),
    **dict.fromkeys(_TIMES, pa.float64()),
}
"""required columns of a timeline, and their types"""
MAX_BYTES = 2**29  # largest file that is read
MAX_VALUES = 100_000_000  # most values in all columns of a Parquet file that is read


def recorded_within(config: EvaluationConfig, most_tasks: int) -> range:
    """Return the first sequences, one or more, with at most `most_tasks` tasks in all."""
    trace = load_trace(config.trace)
    tasks = trace.columns.tasks_of_jobs()
    total = 0
    for number in range(config.sequences):
        job = draw_sequence(config, trace, number).job
        total += int(tasks[job].sum()) * len(config.policies)
        if number > 0 and total > most_tasks:
            return range(number)
    return range(config.sequences)


def check_timeline_path(path: Path) -> None:
    """Refuse an unknown suffix before the runs start."""
    if not path.name.endswith(SUFFIXES):
        raise ConfigError(f"{path}: a timeline is written as {', '.join(SUFFIXES)}")


def write_timeline(report: Report, path: Path) -> None:
    """Write one row for each task: policy, sequence, job, stage, task, executor, start, finish.

    With executor classes also the memory of the executor, `executor_memory_mb`. The suffix chooses
    Parquet, CSV or trace events, gzipped.
    """
    check_timeline_path(path)
    table = timeline_table(report)
    with written_whole(path) as file:
        if path.name.endswith(_EVENTS):
            # No name and no time in the header: equal timelines give equal files.
            packed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
            with packed, io.TextIOWrapper(packed, "utf-8") as text:
                text.write('{"displayTimeUnit":"ms","traceEvents":[\n')
                for number, event in enumerate(_events(table)):
                    text.write(("" if number == 0 else ",\n") + json.dumps(event))
                text.write("\n]}\n")
        elif path.suffix == ".csv":
            pa.csv.write_csv(table, file)
        else:
            pa.parquet.write_table(table, file, compression="zstd")


def _events(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the tasks in Chrome's trace-event form, which Perfetto opens; times in microseconds.

    A process of the form is a run (a policy on a sequence), a thread an executor, a slice a task.
    """

    def named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
        return {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}}

    columns = ("policy", "sequence", "executor", "job", "name", "stage", "task", "start_ms",
               "finish_ms")  # fmt: skip
    process: dict[tuple[str, int], int] = {}
    threads: set[tuple[int, int]] = set()
    for batch in table.select(columns).to_batches(max_chunksize=50_000):
        for row in batch.to_pylist():
            run = row["policy"], row["sequence"]
            if run not in process:
                process[run] = len(process) + 1
                yield named("process_name", process[run], 0, f"{run[0]}, sequence {run[1]}")
            pid, tid = process[run], row["executor"] + 1
            if (pid, tid) not in threads:
                threads.add((pid, tid))
                yield named("thread_name", pid, tid, f"executor {row['executor']}")
            start_us = row["start_ms"] * _US_PER_MS
            yield {
                "ph": "X",
                "pid": pid,
                "tid": tid,
                "ts": start_us,
                "dur": row["finish_ms"] * _US_PER_MS - start_us,
                "name": f"job {row['job']}: {row['name']}",
                "cat": f"stage {row['stage']}",
                "args": {"job": row["job"], "stage": row["stage"], "task": row["task"]},
            }


def read_timeline(path: Path) -> pa.Table:
    """Read a table of `write_timeline`, or one like it; FileError (one line) if it is none."""
    if path.suffix not in _READ:
        raise ConfigError(f"{path}: a timeline is read from {' or '.join(_READ)}")
    data = read_bytes(path, FileError, MAX_BYTES)
    content = pa.BufferReader(data)
    try:
        if path.suffix == ".csv":
            # A column of names may hold nothing but digits.
            types = pa.csv.ConvertOptions(column_types=_NEEDED)
            table = pa.csv.read_csv(content, convert_options=types)
        else:
            metadata = pa.parquet.read_metadata(content)
            most_bytes = most_unfolded(len(data))
            excess = excess_of(metadata, len(data), MAX_VALUES, most_bytes, "")
            if excess is not None:
                raise FileError(f"{path}: {excess}")
            table = pa.parquet.read_table(content)
        names: list[str] = table.column_names
    except FileError:
        raise
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not a timeline: a column's name is not UTF-8 text") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileError(f"{path}: not a timeline: {str(error).splitlines()[0]}") from error
    for name, kind in _NEEDED.items():
        if names.count(name) != 1:
            raise FileError(
                f"{path}: the timeline has {names.count(name)} columns {name!r}: 1 is needed"
            )
        try:
            column = table[name].cast(kind)
            column.validate(full=True)  # Parquet's strings may be no UTF-8
        except pa.ArrowException as error:
            words = str(error).splitlines()[0]
            raise FileError(f"{path}: column {name!r} is not {kind}: {words}") from error
        if column.null_count:
            raise FileError(f"{path}: column {name!r} is empty in {column.null_count:,} rows")
        table = table.set_column(names.index(name), name, column)
    _check_numbers(table, path)
    return table


def _check_numbers(table: pa.Table, path: Path) -> None:
    """Refuse negative numbers, unknown executors, and tasks that end before they start."""
    for name in _COUNTED:
        values = table[name].to_numpy()
        if (values < 0).any():
            raise FileError(f"{path}: {name} {values.min()} is negative")
    executor = table["executor"].to_numpy()
    if (executor >= MAX_EXECUTORS).any():
        raise FileError(f"{path}: executor {executor.max()} must lie in 0..{MAX_EXECUTORS - 1:,}")
    start_ms, finish_ms = (table[name].to_numpy() for name in _TIMES)
    is_right = (start_ms >= 0) & (finish_ms >= start_ms) & (finish_ms <= MAX_TIME_MS)
    if not is_right.all():
        row = int(np.argmin(is_right))
        raise FileError(
            f"{path}: a task from {start_ms[row]} to {finish_ms[row]} ms: it must start at 0 or "
            f"later, not end before, and end by {MAX_TIME_MS:g} ms"
        )


def timeline_table(report: Report) -> pa.Table:
    """Return the recorded tasks of all runs, columns as in `write_timeline`."""
    tables = []
    classes = report.config.cluster().classes or ()
    each_mb = np.repeat([kind.memory_mb for kind in classes], [kind.count for kind in classes])
    for run in (run for policy in report.policies.values() for run in policy.runs):
        if run.timeline is None:
            continue
        job = draw_sequence(report.config, report.trace, run.sequence).job
        table = task_table(run.policy, run.sequence, report.trace, job, run.timeline)
        if classes:
            table = table.append_column("executor_memory_mb", [each_mb[run.timeline["executor"]]])
        tables.append(table)
    if not tables:
        raise ConfigError("the evaluation recorded no timelines")
    return pa.concat_tables(tables)


def task_table(policy: str, sequence: int, trace: Trace, job: Int32, record: Table) -> pa.Table:
    """Return the tasks of one run, columns as in `write_timeline`.

    `job` (K,) is the row of each arrival's job in the trace; `record` is a `Simulator.timeline`.
    """
    sizes = np.diff(trace.columns.first_stage)[job]
    first_stage = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    names = pa.array(trace.job_names)
    return pa.table(
        {
            "policy": pa.repeat(policy, len(record)),
            "sequence": np.full(len(record), sequence, np.int32),
            "job": record["job"],
            "name": names.take(pa.array(job[record["job"]])),
            "stage": record["stage"] - first_stage[record["job"]],
            "task": record["task"],
            "executor": record["executor"],
            "start_ms": record["start_ms"],
            "finish_ms": record["finish_ms"],
        }
    )
