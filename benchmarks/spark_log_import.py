"""Scaling of the import of many event logs on a cluster, by logs and executors.

    python -m benchmarks.spark_log_import [--logs 1000] [--megabytes 4] [--executors 1 2]

The logs are copies of one: a real log whose queries are repeated until it has the requested size
(`benchmarks.spark_log_throughput`), zstd as Spark writes it. Each count of executors, of one core
each, is measured in a process of its own that runs on as many cores of the machine, with a tenth of
the logs before all of them. CPU seconds are those of the processes that read (Python) and of the
executors (Java); memory is the largest that any reading process ever had.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.spark_log_throughput import write_log
from decima.rl.parallel.session import open_session
from decima.spark.cluster_logs import read_logs_on_cluster
from traces.spark_log.reader import HowToRead

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
READERS = (b"pyspark.daemon", b"pyspark.worker")
EXECUTORS = (b"org.apache.spark.executor.CoarseGrainedExecutorBackend",)
POLL_S = 0.2


class Usage(NamedTuple):
    """Memory and CPU time of one process."""

    cpu_s: float
    peak_mb: float


def usages(words: tuple[bytes, ...]) -> dict[int, Usage]:
    """Return, by number, the use of descendants whose command line contains one of `words`."""
    found: dict[int, Usage] = {}
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
            command = (folder / "cmdline").read_bytes()
            if not any(word in command for word in words):
                continue
            status = (folder / "status").read_text()
        except OSError:  # it has ended meanwhile
            continue
        peak_kb = next((line.split()[1] for line in status.splitlines() if "VmHWM" in line), "0")
        # User and system time, 14th and 15th of the line.
        cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        found[int(folder.name)] = Usage(cpu_s, int(peak_kb) / 1024)
    return {pid: usage for pid, usage in found.items() if is_below(pid, parents)}


def is_below(pid: int, parents: Mapping[int, int]) -> bool:
    """Return whether this process is an ancestor of the other one."""
    while pid > 1 and pid != os.getpid():
        pid = parents.get(pid, 0)
    return pid == os.getpid()


class Watch:
    """Poller of the readers, which may end before the work does."""

    def __init__(self) -> None:
        self.seen: dict[int, Usage] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._done.wait(POLL_S):
            self.seen |= usages(READERS)

    def end(self) -> dict[int, Usage]:
        self._done.set()
        self._thread.join()
        return self.seen


def measure(executors: int, folder: Path, few: Path) -> None:
    """Import both folders on a fresh cluster and print a line for each."""
    if executors > len(os.sched_getaffinity(0)):
        sys.exit(f"{executors} executors need as many cores")
    # An executor brings its core, as further hosts would: else one alone has all of the machine's.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:executors])
    context = open_session(f"local-cluster[{executors},1,1024]", name="import benchmark")
    try:
        read_logs_on_cluster(context, [str(next(few.iterdir()))], how=HowToRead())  # warm
        for logs in (few, folder):
            print(line(context, executors, logs), flush=True)
    finally:
        context.stop()


def line(context: Any, executors: int, logs: Path) -> str:
    before = usages(READERS), usages(EXECUTORS)
    watch = Watch()
    began = time.monotonic()
    _, summary = read_logs_on_cluster(context, [str(logs)], how=HowToRead(samples=20))
    wall_s = time.monotonic() - began
    readers = watch.end()
    python_s, java_s = (
        sum(one.cpu_s - was[pid].cpu_s if pid in was else one.cpu_s for pid, one in now.items())
        for now, was in zip((readers, usages(EXECUTORS)), before, strict=True)
    )
    busy_s = task_seconds(context)
    peak_mb = max(one.peak_mb for one in readers.values())
    return (
        f"{executors} executors, {summary.applications:,} logs, {summary.bytes_read / 1e9:.2f} GB: "
        f"{wall_s:.0f} s, in tasks {100 * busy_s / executors / wall_s:.0f} % of it; CPU: readers "
        f"{python_s:.0f} s, executors {java_s:.0f} s; largest reader {peak_mb:.0f} MB; "
        f"load {os.getloadavg()[0]:.1f}"
    )


def task_seconds(context: Any) -> float:
    """Time that tasks of the last stage ran, all together."""
    store = context._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    last = max(int(jobs.apply(index).stageIds().head()) for index in range(jobs.size()))
    return float(store.lastStageAttempt(last).executorRunTime()) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--megabytes", type=int, default=4, help="of each log, uncompressed")
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.executors[0], options.measure / "all", options.measure / "few")
        return
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "log.zstd"
        write_log(source, options.megabytes * 1_000_000, 20, "zstd")
        for name, count in (("all", options.logs), ("few", max(1, options.logs // 10))):
            folder = Path(scratch) / name
            folder.mkdir()
            for number in range(count):
                (folder / f"app-{number:05}.zstd").write_bytes(source.read_bytes())
        for executors in options.executors:
            command = [sys.executable, "-m", "benchmarks.spark_log_import", "--measure", scratch]
            subprocess.run([*command, "--executors", str(executors)], check=True)  # noqa: S603


if __name__ == "__main__":
    main()
