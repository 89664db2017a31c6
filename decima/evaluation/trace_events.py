"""Timelines in Chrome's trace-event form, which Perfetto (ui.perfetto.dev) opens.

A process of the form is a run (a policy on a sequence), a thread an executor, a slice a task. Times
are microseconds.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from traces.files.writing import written_whole

SUFFIX = ".json.gz"
_US_PER_MS = 1000.0


def write_trace_events(table: pa.Table, path: Path) -> None:
    """Write the tasks of a timeline table (`decima.evaluation.timeline`), gzipped."""
    with written_whole(path) as file:
        # No name and no time in the header: equal timelines give equal files.
        packed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
        with packed, io.TextIOWrapper(packed, "utf-8") as text:
            text.write('{"displayTimeUnit":"ms","traceEvents":[\n')
            for number, event in enumerate(_events(table)):
                text.write(("" if number == 0 else ",\n") + json.dumps(event))
            text.write("\n]}\n")


def _events(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Slices by run and executor, each led by its names."""
    columns = ("policy", "sequence", "executor", "job", "name", "stage", "task", "start_ms",
               "finish_ms")  # fmt: skip
    process: dict[tuple[str, int], int] = {}
    threads: set[tuple[int, int]] = set()
    for batch in table.select(columns).to_batches(max_chunksize=50_000):
        for row in batch.to_pylist():
            run = row["policy"], row["sequence"]
            if run not in process:
                process[run] = len(process) + 1
                yield _name("process_name", process[run], 0, f"{run[0]}, sequence {run[1]}")
            pid, tid = process[run], row["executor"] + 1
            if (pid, tid) not in threads:
                threads.add((pid, tid))
                yield _name("thread_name", pid, tid, f"executor {row['executor']}")
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


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}}
