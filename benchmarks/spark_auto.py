"""Benefit of `policy="auto"` and of `decima` on a real Spark: four mixes, paired with FAIR.

    python -m benchmarks.spark_auto --json runs/auto.json [--runs 5] [--mixes ordinary,tpch]

- ordinary: ten small jobs beside one of 5,000 tasks;
- streaming: a streaming query of a batch every half second beside three jobs of 300 tasks;
- tpch: `tpch` jobs at 0.06 of their time that come faster than FAIR clears them;
- queries: 24 small and middle jobs beside two of 120 and 80 longer tasks.

In every run each has the same work in one warm JVM, the order rotated: one FIFO pool, FAIR with a
pool for each job, `decima`, and "auto", which first sees the mix of another seed, as it would have
seen yesterday's jobs, and chooses by that. Tasks sleep; durations are unknown beforehand. A batch
of the streaming query counts as a job. A run that the file holds is not repeated.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import decima.spark
from benchmarks.quality import percent
from decima.rl.statistics import difference_percent
from decima.spark import AutoSettings, Scheduler
from decima.spark.loading import LOADING_S
from decima.spark.replay import JOB_PROPERTY, POOL, Replayer, graph_text
from decima.spark.trial import TrialConfig, draw_jobs, local_session
from traces import load_trace
from traces.files.writing import write_json
from traces.numbers import Float64

FIFO, FAIR, DECIMA, AUTO = WAYS = ("spark-fifo", "spark-fair", "decima", "auto")
SLOTS = 16
TASK_MS = 100
LARGE_TASKS, BATCH_TASKS = 5_000, 300
SMALL_JOBS = 10
BATCH_MS, WARM_BATCHES = 500, 3
ROWS_PER_S, ROW_MS = 32, 20
"""of the streaming query; a task sleeps `ROW_MS` for each"""
SHUFFLE_PARTITIONS = 4
FIFO_POOL = "fifo"
SEEN = 1_000
"""added to the seed of what "auto" sees first"""
SETTINGS = AutoSettings(every_s=100_000.0, least_jobs=10)
VERDICT_S = 300.0


class Work(NamedTuple):
    """A job to submit."""

    name: str
    arrival_s: float
    graph: str


def _tasks(tasks: int, task_ms: int = TASK_MS) -> str:
    return ":" + ",".join([str(task_ms)] * tasks)


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
    jobs = []
    for arrival_s in np.sort(rng.uniform(1.0, over_s, SMALL_JOBS)):
        ms = int(rng.integers(30, 100))
        first, second = int(rng.integers(4, 17)), int(rng.integers(2, 5))
        jobs.append((float(arrival_s), f"{_tasks(first, ms)};0{_tasks(second, ms)}"))
    return jobs


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
        progress["durationMs"]["triggerExecution"] / 1000
        for progress in query.recentProgress
        if progress["batchId"] >= first and progress["numInputRows"] > 0
    ]


def timed(context: Any, name: str, pool: str | None, work: Callable[[], None]) -> float:
    """Seconds that a job takes; called in a thread of its own."""
    context.setLocalProperty(JOB_PROPERTY, name)
    context.setLocalProperty(POOL, pool)
    began = time.monotonic()
    work()
    return time.monotonic() - began


def ordinary(seed: int) -> list[Work]:
    """Ten small jobs and a large one, which comes first."""
    small = small_jobs(seed, over_s=0.8 * LARGE_TASKS * TASK_MS / 1000 / SLOTS)
    jobs = [Work(f"small {row}", at_s, graph) for row, (at_s, graph) in enumerate(small)]
    return [Work("large", 0.0, _tasks(LARGE_TASKS)), *jobs]


def batch(seed: int) -> list[Work]:
    """Three jobs, a few seconds apart, beside the stream."""
    at_s = np.cumsum(np.random.default_rng(seed).uniform(0.5, 1.5, 3))
    return [
        Work(f"batch {row}", float(arrival_s), _tasks(BATCH_TASKS))
        for row, arrival_s in enumerate(at_s)
    ]


def tpch(seed: int) -> list[Work]:
    """Jobs of the built-in trace."""
    config = TrialConfig((FAIR,), jobs=15, slots=SLOTS, interarrival_s=0.8, time_scale=0.06,
                         seed=seed)  # fmt: skip
    jobs, arrival_s = draw_jobs(load_trace("tpch"), config)
    return [
        Work(f"{job.name} #{row}", float(at_s), graph_text(job))
        for row, (job, at_s) in enumerate(zip(jobs, arrival_s, strict=True))
    ]


def queries(seed: int) -> list[Work]:
    """Many small jobs and a few middle ones that come while two large ones run."""
    rng = np.random.default_rng(seed)
    shapes = {"small": (4, 400), "short": (8, 500), "middle": (32, 800)}
    arrival_s = 0.5 + np.cumsum(rng.exponential(0.8, 24))
    names = rng.choice(list(shapes), size=24, p=[0.4, 0.4, 0.2])
    jobs = [Work("large", 0.0, _tasks(120, 1000)), Work("report", 1.0, _tasks(80, 1500))]
    return jobs + [
        Work(f"{name} {row}", float(at_s), _tasks(*shapes[name]))
        for row, (name, at_s) in enumerate(zip(names, arrival_s, strict=True))
    ]


MIXES: dict[str, Callable[[int], list[Work]]] = {
    "ordinary": ordinary, "streaming": batch, "tpch": tpch, "queries": queries,
}  # fmt: skip


def play(spark: Any, replayer: Replayer, mix: str, policy: str, seed: int) -> dict[str, float]:
    """JCT of every job in seconds, by name, under the attached policy or one of Spark's own."""
    took_s: dict[str, float] = {}
    pools = FIFO if policy == FIFO else FAIR
    stream = streaming(spark, pool_of(pools, "stream")) if mix == "streaming" else nullcontext()
    with stream as query:
        first_batch = 0 if query is None else query.lastProgress["batchId"] + 1
        begun = time.monotonic()

        def submit(job: Work) -> None:
            time.sleep(max(0.0, job.arrival_s - (time.monotonic() - begun)))
            name = f"{job.name} of {begun:.0f}"
            pool = pool_of(pools, name)
            took_s[job.name] = timed(
                spark.sparkContext, name, pool, lambda: replayer.run_one(name, job.graph)
            )

        threads = [
            threading.Thread(target=submit, args=(job,), daemon=True) for job in MIXES[mix](seed)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if query is not None:
            took_s |= {
                f"batch {row} of the stream": batch_s
                for row, batch_s in enumerate(batches_s(query, first_batch))
            }
    return took_s


def seen(spark: Any, replayer: Replayer, mix: str, seed: int, scheduler: Scheduler) -> None:
    """Let "auto" see the mix of another seed, and wait for its verdict."""
    first = scheduler.status().choice
    play(spark, replayer, mix, AUTO, SEEN + seed)
    ends = time.monotonic() + VERDICT_S
    while scheduler.status().choice is first:
        if time.monotonic() > ends:
            raise SystemExit(f"{mix}: no verdict after {VERDICT_S:g} s")
        time.sleep(0.5)


def run(spark: Any, replayer: Replayer, mix: str, policy: str, seed: int) -> dict[str, Any]:
    """One policy on one mix."""
    if policy in (FIFO, FAIR):
        return {"jct_s": play(spark, replayer, mix, policy, seed)}
    auto = SETTINGS if policy == AUTO else None
    with decima.spark.attach(spark, policy, auto=auto, ready_s=LOADING_S) as scheduler:
        if policy == AUTO:
            seen(spark, replayer, mix, seed, scheduler)
        jct_s = play(spark, replayer, mix, policy, seed)
        status = scheduler.status()
    chosen = (
        {} if status.choice is None else {"chosen": status.choice.policy, "why": status.choice.why}
    )
    return {
        "jct_s": jct_s,
        **chosen,
        "fallbacks": status.fallbacks,
        "faults": status.jvm.get("faults"),
        "over_limit": status.jvm.get("launches_over_limit"),
    }


def mean_s(outcome: dict[str, Any]) -> float:
    """Average JCT of a run."""
    return float(np.mean(list(outcome["jct_s"].values())))


def show(stored: dict[str, Any]) -> None:
    """A row for each mix and way: average JCT, and paired differences to FAIR and to FIFO."""
    print("| mix | way | mean JCT | p95 | against FAIR | its p95 | against FIFO | chosen |")
    print("|---|---|---|---|---|---|---|---|")
    for mix, runs in stored.items():
        for way in WAYS:
            chosen = sorted({run[way].get("chosen", "") for run in runs.values()})
            cells = [f"{_means(runs, way).mean():.2f} s", f"{_tails(runs, way).mean():.2f} s"]
            cells.append(percent(difference_percent(_means(runs, way), _means(runs, FAIR))))
            cells.append(percent(difference_percent(_tails(runs, way), _tails(runs, FAIR))))
            cells.append(percent(difference_percent(_means(runs, way), _means(runs, FIFO))))
            print(
                f"| {mix}, {len(runs)} runs | {way} | {' | '.join(cells)} | {', '.join(chosen)} |"
            )


def _means(runs: dict[str, Any], way: str) -> Float64:
    return np.array([mean_s(run[way]) for run in runs.values()])


def _tails(runs: dict[str, Any], way: str) -> Float64:
    """(R,) the 95th percentile of JCT in each run, in seconds."""
    return np.array([np.quantile(list(run[way]["jct_s"].values()), 0.95) for run in runs.values()])


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mixes", default=",".join(MIXES))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    stored: dict[str, Any] = (
        json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    )
    spark = local_session(SLOTS, fair=True)
    spark.conf.set("spark.sql.shuffle.partitions", SHUFFLE_PARTITIONS)
    make_fifo_pool(spark)
    replayer = Replayer(spark)
    for mix in arguments.mixes.split(","):
        play(spark, replayer, mix, FAIR, 2 * SEEN)  # warms the JVM up
        for seed in range(arguments.runs):
            outcomes = stored.setdefault(mix, {}).setdefault(str(seed), {})
            turn = seed % len(WAYS)
            for policy in (*WAYS[turn:], *WAYS[:turn]):
                if policy not in outcomes:
                    outcomes[policy] = run(spark, replayer, mix, policy, seed)
                    chosen = outcomes[policy].get("chosen", "")
                    print(
                        f"{mix} {seed}, {policy}: {mean_s(outcomes[policy]):.2f} s {chosen}",
                        flush=True,
                    )
                    write_json(arguments.json, stored)
    spark.stop()
    show(stored)


if __name__ == "__main__":
    main()
