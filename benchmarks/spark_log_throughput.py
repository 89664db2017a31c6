"""Speed and memory of the importer of Spark event logs.

    python -m benchmarks.spark_log_throughput [--megabytes 1000] [--tasks 20] [--codec zstd]

The log is a real one (`tests/data/spark_logs/spark-4.3-zstd`), its queries repeated under new
numbers and each task of a stage `--tasks` times, until it has the requested size. Writing it takes
longer than reading it. The importer runs in a process of its own, so that its memory is measured
alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from traces.codecs import open_codec
from traces.spark_log import read_spark_logs
from traces.spark_log.parse import read_lines

SOURCE = Path(__file__).parents[1] / "tests" / "data" / "spark_logs" / "spark-4.3-zstd"
STEP = 1000
"""numbers of one repetition; more than any in the log"""
PERIOD_MS = 10_000
NUMBERED = {
    "Job ID": "step",
    "Stage ID": "step",
    "Stage IDs": "step",
    "RDD ID": "step",
    "Parent IDs": "step",
    "executionId": "step",
    "rootExecutionId": "step",
    "spark.sql.execution.id": "step",
    "spark.sql.execution.root.id": "step",
    "Submission Time": "period",
    "Completion Time": "period",
    "Launch Time": "period",
    "Finish Time": "period",
    "time": "period",
}


def events() -> list[dict[str, Any]]:
    """The events of the real log."""
    (path,) = SOURCE.iterdir()
    with path.open("rb") as stream:
        lines = [line for _, line in read_lines(open_codec(stream)) if isinstance(line, bytes)]
    return [json.loads(line) for line in lines]


def renumbered(value: Any, key: str, repetition: int) -> Any:
    """`value` as the `repetition`-th run of the same queries would have written it."""
    if isinstance(value, dict):
        return {name: renumbered(inner, name, repetition) for name, inner in value.items()}
    if isinstance(value, list):
        return [renumbered(inner, key, repetition) for inner in value]
    if key not in NUMBERED:
        return value
    shift = repetition * (STEP if NUMBERED[key] == "step" else PERIOD_MS)
    if isinstance(value, str):
        return str(int(value) + shift)
    return value + shift if value else 0 if NUMBERED[key] == "period" else shift


def log_lines(tasks: int) -> Iterator[bytes]:
    """Lines without end: the application's start, then its queries again and again."""
    found = events()
    first = next(i for i, event in enumerate(found) if "SQLExecutionStart" in event["Event"])
    setup, queries = found[:first], found[first:-1]
    for event in setup:
        yield line_of(event)
    repetition = 0
    while True:
        for event in queries:
            again = renumbered(event, "", repetition)
            copies = tasks if event["Event"] == "SparkListenerTaskEnd" else 1
            for copy in range(copies):
                if copies > 1:
                    again["Task Info"]["Partition ID"] = copy * STEP + again["Task Info"]["Index"]
                    again["Task Info"]["Launch Time"] += PERIOD_MS // tasks
                    again["Task Info"]["Finish Time"] += PERIOD_MS // tasks
                yield line_of(again)
        repetition += 1


def line_of(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def write_log(path: Path, size: int, tasks: int, codec: str | None) -> None:
    """Write about `size` bytes, uncompressed, of whole repetitions of the queries."""
    with pa.output_stream(str(path), compression=codec) as stream:
        written = 0
        for line in log_lines(tasks):
            stream.write(line)
            written += len(line)
            if written >= size and b"SQLExecutionEnd" in line[:100]:
                return


def measure(path: Path) -> None:
    """Import `path` and print the cost."""
    start = time.process_time()
    trace, summary = read_spark_logs([path])
    cpu_s = time.process_time() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    megabytes = summary.bytes_read / 1e6
    print("\n".join(summary.lines()))
    print(
        f"{len(trace.jobs):,} jobs from {megabytes:,.0f} MB in {cpu_s:.1f} CPU s: "
        f"{megabytes / cpu_s:,.0f} MB per CPU second, {1000 * cpu_s / megabytes:.1f} CPU s per GB, "
        f"peak memory {peak_mb:,.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200, help="uncompressed size")
    parser.add_argument("--tasks", type=int, default=20, help="copies of each task")
    parser.add_argument("--codec", choices=["zstd"], help="default: not compressed")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        write_log(path, options.megabytes * 1_000_000, options.tasks, options.codec)
        command = [sys.executable, "-m", "benchmarks.spark_log_throughput", "--measure", str(path)]
        subprocess.run(command, check=True)  # noqa: S603


if __name__ == "__main__":
    main()
