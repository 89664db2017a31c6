"""Jobs that end before a plan could help: what attaching costs where many tiny ones follow quickly.

    python -m benchmarks.spark_tiny_jobs [--policy decima] [--jobs 400] [--rounds 5]

Four threads, each with a tiny query after the other, on a local Spark: plain, with a pool for each
thread, and attached, in turn, so that all meet the same machine. Python's CPU time is that of this
process, which also runs the threads that submit; what plain Spark takes of it is subtracted.
"""

from __future__ import annotations

import argparse
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from decima.spark import attach
from decima.spark.loading import LOADING_S
from decima.spark.replay import POOL
from decima.spark.trial import local_session

THREADS = 4
SLOTS = 8
KB = 1024.0


def run_jobs(spark: Any, jobs: int, *, own_pools: bool) -> tuple[float, float]:
    """Seconds, and CPU seconds of this process, for `jobs` tiny queries."""

    def submit(number: int) -> None:
        pool = f"pool {number}" if own_pools else None
        spark.sparkContext.setLocalProperty(POOL, pool)
        for _ in range(jobs // THREADS):
            spark.range(0, 100, 1, 2).selectExpr("id + 1 AS next").collect()

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(THREADS)]
    began, cpu_began = time.monotonic(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - began, time.process_time() - cpu_began


def rss_mb(pid: int | str = "self") -> float:
    """Memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1]) / KB
    raise ValueError(f"process {pid} has no VmRSS")


def main() -> None:
    """Print jobs a second, Python's CPU and memory."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policy", default="decima")
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    spark = local_session(SLOTS, fair=True)
    ways = ("one pool", "own pools", given.policy)
    plans, plain_mb = 0, rss_mb()
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for round_ in range(-1, given.rounds):
        turn = round_ % len(ways)
        for way in (*ways[turn:], *ways[:turn]):
            is_attached = way == given.policy
            with (
                attach(spark, way, ready_s=LOADING_S) if is_attached else nullcontext() as scheduler
            ):
                once = run_jobs(spark, given.jobs, own_pools=way == "own pools")
                if scheduler is not None:
                    plans = scheduler.status().plans
            print(f"round {round_}, {way}: {given.jobs / once[0]:.1f} jobs/s", flush=True)
            if round_ >= 0:  # the first warms the JVM up
                found[way].append(once)
    plain_cpu_s = np.median([cpu_s for _, cpu_s in found["one pool"]])
    print(f"{given.jobs} tiny jobs from {THREADS} threads, {SLOTS} slots, {given.rounds} rounds")
    for way, runs in found.items():
        took_s, cpu_s = np.median(np.array(runs), axis=0)
        extra_ms = 1000 * (cpu_s - plain_cpu_s) / given.jobs
        print(f"{way:12} {given.jobs / took_s:6.1f} jobs/s  {extra_ms:+6.2f} ms of CPU a job")
    print(f"plans {plans}, memory {plain_mb:.0f} MB before attaching, {rss_mb():.0f} MB after")
    spark.stop()


if __name__ == "__main__":
    main()
