"""Benefit of `policy="auto"` on a real Spark: three mixes, paired with FAIR.

    python -m benchmarks.spark_auto --json runs/auto.json [--runs 5] [--mixes ordinary,tpch]

- ordinary: ten small jobs beside one of 5,000 tasks;
- streaming: a streaming query of a batch every half second beside three jobs of 300 tasks;
- tpch: `tpch` jobs at 0.06 of their time that come faster than FAIR clears them.

In every run each has the same work in one warm JVM, the order rotated: FAIR with a pool for each
job, and "auto", which first sees the mix of another seed, as it would have seen yesterday's jobs,
and chooses by that. Tasks sleep; durations are unknown beforehand. A batch of the streaming query
counts as a job. A run that the file holds is not repeated.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import decima.spark
from benchmarks.quality import percent
from benchmarks.spark_mixes import SHUFFLE_PARTITIONS, batches_s, small_jobs, streaming, timed
from decima.rl.statistics import difference_percent
from decima.spark import AutoSettings, Scheduler
from decima.spark.replay import Replayer, graph_text
from decima.spark.trial import TrialConfig, draw_jobs, local_session
from traces import load_trace
from traces.files.writing import write_json

FAIR, AUTO = "spark-fair", "auto"
SLOTS = 16
TASK_MS = 100
LARGE_TASKS, BATCH_TASKS = 5_000, 300
SEEN = 1_000
"""added to the seed of what "auto" sees first"""
SETTINGS = AutoSettings(every_s=100_000.0, least_jobs=10)
VERDICT_S = 300.0


class Work(NamedTuple):
    """A job to submit."""

    name: str
    arrival_s: float
    graph: str


def _stage(tasks: int) -> str:
    return ":" + ",".join([str(TASK_MS)] * tasks)


def ordinary(seed: int) -> list[Work]:
    """Ten small jobs and a large one, which comes first."""
    small = small_jobs(seed, over_s=0.8 * LARGE_TASKS * TASK_MS / 1000 / SLOTS)
    jobs = [Work(f"small {row}", at_s, graph) for row, (at_s, graph) in enumerate(small)]
    return [Work("large", 0.0, _stage(LARGE_TASKS)), *jobs]


def batch(seed: int) -> list[Work]:
    """Three jobs, a few seconds apart, beside the stream."""
    at_s = np.cumsum(np.random.default_rng(seed).uniform(0.5, 1.5, 3))
    return [Work(f"batch {row}", float(one), _stage(BATCH_TASKS)) for row, one in enumerate(at_s)]


def tpch(seed: int) -> list[Work]:
    """Jobs of the built-in trace."""
    config = TrialConfig((FAIR,), jobs=15, slots=SLOTS, interarrival_s=0.8, time_scale=0.06,
                         seed=seed)  # fmt: skip
    jobs, arrival_s = draw_jobs(load_trace("tpch"), config)
    return [
        Work(f"{job.name} #{row}", float(at_s), graph_text(job))
        for row, (job, at_s) in enumerate(zip(jobs, arrival_s, strict=True))
    ]


MIXES: dict[str, Callable[[int], list[Work]]] = {
    "ordinary": ordinary, "streaming": batch, "tpch": tpch,
}  # fmt: skip


def play(spark: Any, replayer: Replayer, mix: str, seed: int) -> dict[str, float]:
    """JCT of every job in seconds, by name, under the attached policy."""
    took_s: dict[str, float] = {}
    stream = streaming(spark, "stream") if mix == "streaming" else nullcontext()
    with stream as query:
        first_batch = 0 if query is None else query.lastProgress["batchId"] + 1
        begun = time.monotonic()

        def submit(job: Work) -> None:
            time.sleep(max(0.0, job.arrival_s - (time.monotonic() - begun)))
            name = f"{job.name} of {begun:.0f}"
            took_s[job.name] = timed(
                spark.sparkContext, name, name, lambda: replayer.run_one(name, job.graph)
            )

        threads = [
            threading.Thread(target=submit, args=(job,), daemon=True) for job in MIXES[mix](seed)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if query is not None:
            found = batches_s(query, first_batch)
            took_s |= {f"batch {row} of the stream": one for row, one in enumerate(found)}
    return took_s


def seen(spark: Any, replayer: Replayer, mix: str, seed: int, scheduler: Scheduler) -> None:
    """Let "auto" see the mix of another seed, and wait for its verdict."""
    first = scheduler.status().choice
    play(spark, replayer, mix, SEEN + seed)
    ends = time.monotonic() + VERDICT_S
    while scheduler.status().choice is first:
        if time.monotonic() > ends:
            raise SystemExit(f"{mix}: no verdict after {VERDICT_S:g} s")
        time.sleep(0.5)


def run(spark: Any, replayer: Replayer, mix: str, policy: str, seed: int) -> dict[str, Any]:
    """One policy on one mix."""
    if policy == FAIR:
        return {"jct_s": play(spark, replayer, mix, seed)}
    with decima.spark.attach(spark, AUTO, auto=SETTINGS) as scheduler:
        seen(spark, replayer, mix, seed, scheduler)
        found = play(spark, replayer, mix, seed)
        status = scheduler.status()
    assert status.choice is not None  # noqa: S101 - "auto" is attached
    return {
        "jct_s": found,
        "chosen": status.choice.policy,
        "why": status.choice.why,
        "fallbacks": status.fallbacks,
        "faults": status.jvm.get("faults"),
        "over_limit": status.jvm.get("launches_over_limit"),
    }


def mean_s(found: dict[str, Any]) -> float:
    """Average JCT of a run."""
    return float(np.mean(list(found["jct_s"].values())))


def show(stored: dict[str, Any]) -> None:
    """A row a mix: average JCT under both, and the paired difference."""
    print("| mix | FAIR, mean JCT | auto | difference | chosen |")
    print("|---|---|---|---|---|")
    for mix, runs in stored.items():
        fair, auto = (
            np.array([mean_s(one[name]) for one in runs.values()]) for name in (FAIR, AUTO)
        )
        chosen = sorted({one[AUTO]["chosen"] for one in runs.values()})
        print(
            f"| {mix}, {len(fair)} runs | {fair.mean():.2f} s | {auto.mean():.2f} s "
            f"| {percent(difference_percent(auto, fair))} | {', '.join(chosen)} |"
        )


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mixes", default=",".join(MIXES))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    stored: dict[str, Any] = json.loads(given.json.read_text()) if given.json.exists() else {}
    spark = local_session(SLOTS, fair=True)
    spark.conf.set("spark.sql.shuffle.partitions", SHUFFLE_PARTITIONS)
    replayer = Replayer(spark)
    for mix in given.mixes.split(","):
        play(spark, replayer, mix, 2 * SEEN)  # warms the JVM up
        for seed in range(given.runs):
            found = stored.setdefault(mix, {}).setdefault(str(seed), {})
            for policy in (FAIR, AUTO) if seed % 2 == 0 else (AUTO, FAIR):
                if policy not in found:
                    found[policy] = run(spark, replayer, mix, policy, seed)
                    told = found[policy].get("chosen", "")
                    print(f"{mix} {seed}, {policy}: {mean_s(found[policy]):.2f} s {told}")
                    write_json(given.json, stored)
    spark.stop()
    show(stored)


if __name__ == "__main__":
    main()
