"""Time and memory of a trace of many jobs: checked, written, read and flattened.

    python -m benchmarks.large_traces [--jobs 1000000]

Jobs are chains of one to five stages with one recorded duration each, made here. Each line has CPU
seconds and the largest memory of the process so far; reading is done in a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from traces import Trace, load_trace, to_arrays, write_trace
from traces.columns import Columns, Names, Rows, starts

SEED, MOST_STAGES = 0, 5


def columns(jobs: int) -> Columns:
    """Chains whose stages have 1 to 49 tasks."""
    rng = np.random.default_rng(SEED)
    sizes = rng.integers(1, MOST_STAGES + 1, jobs)
    first = starts(sizes)
    count = int(first[-1])
    place = np.arange(count) - np.repeat(first[:-1], sizes)
    has_parent = place > 0
    nothing = Rows(np.zeros(count + 1, np.int64), np.empty(0, np.float32))
    task_ms = rng.lognormal(8.0, 1.0, count).astype(np.float32)
    every = np.arange(count + 1)
    return Columns(
        Names(np.arange(jobs), [f"job-{number}" for number in range(jobs)]),
        np.sort(rng.uniform(0.0, 1e9, jobs)),
        np.ones(jobs),
        np.full(jobs, np.nan),
        first,
        Names(place, [f"s{number}" for number in range(MOST_STAGES)]),
        rng.integers(1, 50, count),
        Rows(starts(has_parent.astype(np.int64)), (place[has_parent] - 1).astype(np.int32)),
        np.full(count, np.nan),
        np.full(count, np.nan),
        np.ones(count, np.int64),
        np.zeros(count, np.bool_),
        every,
        np.ones(count, np.int64),
        (nothing, nothing, Rows(every, task_ms)),
    )


def report(label: str, began_s: float) -> float:
    """Print a line; the CPU time now."""
    spent_s = time.process_time() - began_s
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{label:8} {spent_s:7.2f} CPU s, {memory_mb:6,} MB", flush=True)
    return time.process_time()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    now_s = time.process_time()
    if arguments.read is not None:
        trace = load_trace(arguments.read)
        now_s = report("read", now_s)
        to_arrays(trace)
        report("flatten", now_s)
        return
    made = columns(arguments.jobs)
    now_s = time.process_time()
    trace = Trace.of_columns("many", made, {})
    now_s = report("check", now_s)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.parquet"
        write_trace(trace, path)
        report("write", now_s)
        command = [sys.executable, "-m", "benchmarks.large_traces", "--read", str(path)]
        subprocess.run(command, check=True)  # noqa: S603 - this program


if __name__ == "__main__":
    main()
