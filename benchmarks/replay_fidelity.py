"""Agreement of a replay with Spark, on logs that this program records.

    python -m benchmarks.replay_fidelity [--jobs 30] [--only sleep-fifo] [--keep LOGS]

Records five applications with real local PySpark, replays each, and prints how far simulated job
durations are from recorded ones. ``sleep`` jobs are RDD jobs of two to four stages whose tasks
sleep for known times on eight slots; ``sql`` jobs are queries that compute, on two slots. ``alone``
runs them one after the other; ``fifo`` and ``fair`` submit them while others run, under that mode
of Spark's scheduler (for ``fair`` with a pool for each job). Needs pyspark, Java, some minutes, and
a machine that has little else to do: what slows Spark down here slows a job without a cause that
the log could show.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from decima.whatif.replay import ReplaySettings, read_recording, replay
from decima.whatif.replay.report import TARGET_PERCENT
from traces.loopback import LOOPBACK

SEED = 7
WARM_UP_JOBS = 3
"""run before the clock counts, and replayed with the rest"""


class Recording(NamedTuple):
    """One application to record."""

    kind: str
    """``sleep`` or ``sql``"""
    mode: str
    """``alone``, ``fifo`` or ``fair``"""
    slots: int
    gap_s: float
    """mean time between submissions of jobs that overlap"""


RECORDINGS = {
    "sleep-alone": Recording("sleep", "alone", 8, 0.0),
    "sleep-fifo": Recording("sleep", "fifo", 8, 1.6),
    "sleep-fair": Recording("sleep", "fair", 8, 1.6),
    "sql-alone": Recording("sql", "alone", 2, 0.0),
    "sql-fifo": Recording("sql", "fifo", 2, 1.0),
}

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    **LOOPBACK,
    "spark.driver.memory": "1g",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.sql.shuffle.partitions": "6",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}

Job = Callable[[Any], None]
"""takes the SparkSession, returns when the job has ended"""


class SleepStages(NamedTuple):
    """Durations in s of the tasks of each stage of one job."""

    durations_s: tuple[tuple[float, ...], ...]

    def run(self, spark: Any) -> None:
        """Run the job; returns when it has ended."""
        first, *later = self.durations_s
        rows = spark.sparkContext.parallelize(range(len(first)), len(first))
        rows = rows.mapPartitionsWithIndex(sleeping(first))
        for durations_s in later:
            pairs = rows.map(lambda number: (number, number))
            sums = pairs.reduceByKey(lambda left, right: left + right, len(durations_s))
            rows = sums.keys().mapPartitionsWithIndex(sleeping(durations_s))
        rows.count()


def sleeping(durations_s: Sequence[float]) -> Callable[[int, Iterator[int]], Iterator[int]]:
    """Return the function of each partition: sleep for its time, then pass its rows on."""

    def run(index: int, rows: Iterator[int]) -> Iterator[int]:
        import time  # the function travels to worker processes that have not imported this file

        found = list(rows)
        time.sleep(durations_s[index])
        return iter(found)

    return run


def sleep_jobs(count: int, rng: np.random.Generator) -> list[Job]:
    """Jobs of two to four stages, mostly short, some ten times as long."""
    jobs: list[Job] = []
    for _ in range(count):
        mean_s = 0.15 if rng.random() < 0.7 else 0.8
        stages = tuple(
            tuple((mean_s * rng.lognormal(0.0, 0.4, int(rng.integers(2, 20)))).tolist())
            for _ in range(int(rng.integers(2, 5)))
        )
        jobs.append(SleepStages(stages).run)
    return jobs


QUERIES = (
    "SELECT customer % 10 AS k, sum(price), count(*) FROM orders GROUP BY customer % 10",
    "SELECT region, sum(price) AS revenue FROM orders JOIN customers USING (customer) "
    "GROUP BY region ORDER BY revenue",
    "SELECT customer, count(DISTINCT item) AS items FROM orders GROUP BY customer "
    "ORDER BY items DESC, customer LIMIT 20",
    "SELECT a.region, count(*) FROM customers a JOIN (SELECT customer, max(price) AS best "
    "FROM orders GROUP BY customer) b USING (customer) WHERE best > 900 GROUP BY a.region",
)


def sql_jobs(count: int, rng: np.random.Generator) -> list[Job]:
    """The queries in random order."""
    return [query(QUERIES[number]) for number in rng.integers(len(QUERIES), size=count)]


def query(text: str) -> Job:
    """The job that runs one query."""

    def run(spark: Any) -> None:
        spark.sql(text).collect()

    return run


def make_tables(spark: Any) -> None:
    """Two views that are computed again by each query: two million orders, fifty thousand
    people."""
    orders = spark.range(0, 2_000_000, 1, 6).selectExpr(
        "hash(id, 1) & 65535 AS customer",
        "hash(id, 2) & 1023 AS price",
        "hash(id, 3) & 4095 AS item",
    )
    customers = spark.range(0, 65_536, 1, 2).selectExpr("id AS customer", "hash(id) % 25 AS region")
    orders.createOrReplaceTempView("orders")
    customers.createOrReplaceTempView("customers")


def run_application(name: str, jobs: int, folder: Path) -> None:
    """Run one application in this process, its event log going to `folder`."""
    from pyspark.sql import SparkSession

    recording = RECORDINGS[name]
    rng = np.random.default_rng(SEED)
    builder = SparkSession.builder.appName(name).master(f"local[{recording.slots}]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    if recording.mode == "fair":
        builder = builder.config("spark.scheduler.mode", "FAIR")
    spark = builder.config("spark.eventLog.dir", folder.as_uri()).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    make_tables(spark)
    generator = sleep_jobs if recording.kind == "sleep" else sql_jobs
    work = generator(WARM_UP_JOBS + jobs, rng)
    for number, job in enumerate(work[:WARM_UP_JOBS]):
        submit(spark, f"warm-up {number}", job)
    submitted = work[WARM_UP_JOBS:]
    if recording.mode == "alone":
        for number, job in enumerate(submitted):
            submit(spark, f"job {number:02}", job)
    else:
        submit_overlapping(spark, submitted, rng.exponential(recording.gap_s, jobs).tolist())
    spark.stop()


def submit(spark: Any, name: str, job: Job) -> None:
    """Run `job` in this thread, under its own name and in a pool of its own.

    The names sort by arrival: that is how Spark's FAIR scheduler breaks ties.
    """
    spark.sparkContext.setJobDescription(name)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
    job(spark)


def submit_overlapping(spark: Any, jobs: Sequence[Job], gaps_s: Sequence[float]) -> None:
    """Submit each of `jobs` from a thread of its own, `gaps_s` after the one before."""
    threads = []
    for number, (job, gap_s) in enumerate(zip(jobs, gaps_s, strict=True)):
        time.sleep(gap_s)
        thread = threading.Thread(target=submit, args=(spark, f"job {number:02}", job))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()


def record(name: str, jobs: int, folder: Path) -> None:
    """Record one application into `folder`, in a process of its own."""
    folder.mkdir(parents=True)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "benchmarks.replay_fidelity", "--jobs", str(jobs)]
    subprocess.run(  # noqa: S603 - this very program
        [*command, "--run", name, "--into", str(folder.resolve())],
        env=environment,
        check=True,
        stderr=subprocess.DEVNULL,
    )


def add_row(table: Table, name: str, folder: Path) -> None:
    """Replay the log in `folder` and add how well that went."""
    report = replay(read_recording([folder]), ReplaySettings())
    group = "alone" if RECORDINGS[name].mode == "alone" else "overlapping"
    found, tasks_only = report.fidelity(group), report.fidelity(group, driver_times=False)
    if found is None or tasks_only is None:
        raise SystemExit(f"{name}: no job ran {group}")
    table.add_row(
        name,
        str(found.jobs),
        f"{found.median_error_percent:.1f} %",
        f"{found.bias_percent:+.1f} %",
        f"{TARGET_PERCENT[group]:.0f} %",
        f"{tasks_only.median_error_percent:.1f} %",
        f"{tasks_only.bias_percent:+.1f} %",
        f"{np.median(report.spread_s / report.simulated_s):.1%}",
    )


def results_table() -> Table:
    """The table to fill."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("recording")
    for heading in ("jobs", "median |error|", "bias", "aim", "no driver times", "bias", "spread"):
        table.add_column(heading, justify="right")
    return table


def main() -> None:
    """Record and replay the workloads of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=30, help="in each recording, after warming up")
    parser.add_argument("--only", action="append", choices=list(RECORDINGS))
    parser.add_argument("--keep", type=Path, help="leave the logs here; those here are not redone")
    parser.add_argument("--run", choices=list(RECORDINGS), help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        run_application(options.run, options.jobs, options.into)
        return
    table = results_table()
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.only or RECORDINGS:
            folder = (options.keep or Path(scratch)) / name
            if not folder.exists():
                print(f"recording {name}", file=sys.stderr)
                record(name, options.jobs, folder)
            add_row(table, name, folder)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
