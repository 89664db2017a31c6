"""An ordinary mix on a warm local Spark: small jobs and a streaming query beside one large job.

    python -m benchmarks.spark_mixes --json runs/mixes.json [--runs 5] [--policies ...]

Every run gives each policy the same work in one JVM, one after the other, the order rotated from
run to run: a job of 5,000 tasks, ten small ones that come while it runs, and a streaming query
whose batches are due every half second. Tasks sleep, so that the machine's cores matter little;
durations are unknown beforehand. The session has FAIR mode, with one FIFO pool for Spark's FIFO:
since Spark 3.3.2 the default pool is itself FAIR. A run that the file holds is not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import decima.spark
from benchmarks.quality import percent
from decima.rl.statistics import difference_percent
from decima.spark.loading import LOADING_S
from decima.spark.replay import JOB_PROPERTY, POOL, Replayer
from decima.spark.trial import PLAIN, local_session
from traces.files.writing import write_json

POLICIES = "spark-fifo,spark-fair,strict_fair,tuned_srw,decima"
SLOTS = 8
TASK_MS = 40
"""of the large job"""
SMALL = 10
BATCH_MS = 500
ROWS_PER_S = 32
"""of the streaming query; a task sleeps `ROW_MS` for each"""
ROW_MS = 20
SHUFFLE_PARTITIONS = 4
WARM_BATCHES = 3
FIFO_POOL = "fifo"
MEASURES = {"small": "small jobs, mean", "p95": "batches, p95", "large": "large job"}


def make_fifo_pool(spark: Any) -> None:
    """A pool in which jobs are served by their number, independently of the default one."""
    jvm, context = spark._jvm, spark._jsc.sc()
    scheduler = jvm.org.apache.spark.scheduler
    fifo = scheduler.Pool(FIFO_POOL, scheduler.SchedulingMode.FIFO(), 0, 1)
    context.taskScheduler().rootPool().addSchedulable(fifo)


def pool_of(policy: str, name: str) -> str | None:
    """The pool of a job: only Spark's own schedulers look at it."""
    return {"spark-fifo": FIFO_POOL, "spark-fair": name}.get(policy)


def small_jobs(seed: int, over_s: float) -> list[tuple[float, str]]:
    """Return the start in seconds and the graph of each small job: 4 to 16 tasks, then 2 to 4."""
    rng = np.random.default_rng(seed)
    found = []
    for arrival_s in np.sort(rng.uniform(1.0, over_s, SMALL)):
        ms = int(rng.integers(30, 100))
        first, second = int(rng.integers(4, 17)), int(rng.integers(2, 5))
        found.append((float(arrival_s), f":{_times(ms, first)};0:{_times(ms, second)}"))
    return found


def _times(ms: int, tasks: int) -> str:
    return ",".join([str(ms)] * tasks)


@contextmanager
def streaming(spark: Any, pool: str | None) -> Iterator[Any]:
    """A query over a stream of rows, shuffled, so that every batch has two stages.

    It keeps no state: writing that to files takes more of a small machine than all its tasks, and
    none of it is scheduling.
    """
    spark.sparkContext.setLocalProperty(POOL, pool)
    nap = f"java_method('java.lang.Thread', 'sleep', {ROW_MS}L)"
    rows = spark.readStream.format("rate").option("rowsPerSecond", ROWS_PER_S)
    query = (
        rows.option("numPartitions", SHUFFLE_PARTITIONS)
        .load()
        .selectExpr("value % 4 AS part", f"{nap} AS slept")
        .repartition(SHUFFLE_PARTITIONS, "part")
        .writeStream.format("noop")
        .trigger(processingTime=f"{BATCH_MS} milliseconds")
        .start()
    )
    try:
        while len(query.recentProgress) < WARM_BATCHES:
            time.sleep(0.1)
        yield query
    finally:
        query.stop()
        spark.sparkContext.setLocalProperty(POOL, None)


def batches_s(query: Any, first: int) -> list[float]:
    """Seconds that each batch with rows took, from the one numbered `first` on."""
    return [
        one["durationMs"]["triggerExecution"] / 1000
        for one in query.recentProgress
        if one["batchId"] >= first and one["numInputRows"] > 0
    ]


def timed(context: Any, name: str, pool: str | None, work: Callable[[], None]) -> float:
    """Seconds that a job takes; called in a thread of its own."""
    context.setLocalProperty(JOB_PROPERTY, name)
    context.setLocalProperty(POOL, pool)
    began = time.monotonic()
    work()
    return time.monotonic() - began


def run_mix(spark: Any, replayer: Replayer, policy: str, seed: int, tasks: int) -> dict[str, Any]:
    """One policy's run; see `MEASURES`, all in seconds."""
    jobs = small_jobs(seed, over_s=0.8 * tasks * TASK_MS / 1000 / SLOTS)
    took_s: dict[str, float] = {}
    begun = time.monotonic()

    def submit(name: str, arrival_s: float, graph: str) -> None:
        time.sleep(max(0.0, arrival_s - (time.monotonic() - begun)))
        work = lambda: replayer.run_one(name, graph)  # noqa: E731 - named where it is used
        took_s[name] = timed(spark.sparkContext, name, pool_of(policy, name), work)

    stream = streaming(spark, pool_of(policy, "stream"))
    with stream as query, _attached(spark, policy) as own:
        begun = time.monotonic()
        first_batch = query.lastProgress["batchId"] + 1
        threads = [
            threading.Thread(target=submit, args=(f"small {row}", *job), daemon=True)
            for row, job in enumerate(jobs)
        ]
        large = ("large", 0.0, ":" + _times(TASK_MS, tasks))
        threads.append(threading.Thread(target=submit, args=large, daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while not (batch_s := batches_s(query, first_batch)):
            time.sleep(0.1)  # under FIFO the first one may wait for all of the large job
        status = None if own is None else own.status()
    small_s = [took_s[f"small {row}"] for row in range(len(jobs))]
    return {
        "small": float(np.mean(small_s)),
        "small_s": small_s,
        "p95": float(np.quantile(batch_s, 0.95)),
        "batches": len(batch_s),
        "large": took_s["large"],
        "load": os.getloadavg()[0],
        "status": {} if status is None else _kept(status),
    }


def _kept(status: Any) -> dict[str, Any]:
    return {
        "plans": status.plans,
        "fallbacks": status.fallbacks,
        "plan_ms": [status.plan_ms_median, status.plan_ms_p90],
        "jvm": {name: value for name, value in status.jvm.items() if name != "held"},
    }


def _attached(spark: Any, policy: str) -> Any:
    return (
        nullcontext() if policy in PLAIN else decima.spark.attach(spark, policy, ready_s=LOADING_S)
    )


def warm_up(spark: Any, replayer: Replayer, policies: Sequence[str], rounds: int) -> None:
    """Small mixes under every policy, so that the JVM has compiled what it will."""
    for round_ in range(rounds):
        for policy in policies:
            run_mix(spark, replayer, policy, 1_000 + round_, tasks=400)


def show(stored: dict[str, Any], policies: list[str]) -> None:
    """Medians over runs, and paired differences against FAIR with 95 % intervals."""
    table = Table(title=f"{len(stored)} runs, seconds", title_justify="left")
    for heading in ("policy", *(f"{text}|vs FAIR" for text in MEASURES.values())):
        for part in heading.split("|"):
            table.add_column(part)
    for policy in policies:
        cells = []
        for measure in MEASURES:
            values, fair = (
                np.array([run[name][measure] for run in stored.values()])
                for name in (policy, "spark-fair")
            )
            cells.append(f"{np.median(values):.2f}")
            is_pair = policy != "spark-fair" and len(stored) > 1
            cells.append(percent(difference_percent(values, fair)) if is_pair else "")
        table.add_row(policy, *cells)
    Console(width=160).print(table)


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=5_000, help="of the large job")
    parser.add_argument("--warm-up", type=int, default=3, help="rounds")
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    policies = given.policies.split(",")
    stored: dict[str, Any] = json.loads(given.json.read_text()) if given.json.exists() else {}
    spark = local_session(SLOTS, fair=True)
    spark.conf.set("spark.sql.shuffle.partitions", SHUFFLE_PARTITIONS)
    make_fifo_pool(spark)
    replayer = Replayer(spark)
    warm_up(spark, replayer, policies, given.warm_up)
    for seed in range(given.runs):
        run = stored.setdefault(str(seed), {})
        turn = seed % len(policies)
        for policy in (*policies[turn:], *policies[:turn]):
            if policy in run:
                continue
            run[policy] = run_mix(spark, replayer, policy, seed, given.tasks)
            found = ", ".join(f"{name} {run[policy][name]:.2f} s" for name in MEASURES)
            print(f"run {seed}, {policy}: {found}", flush=True)
            write_json(given.json, stored)
    spark.stop()
    show(stored, policies)


if __name__ == "__main__":
    main()
