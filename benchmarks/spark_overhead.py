"""Overhead of attaching to a live Spark: throughput, time in offer rounds, Python's share, latency.

    python -m benchmarks.spark_overhead [--policy strict_fair] [--tasks 2000] [--rounds 5]

Four concurrent jobs of empty tasks on a local Spark, plain and attached in turn, so that both meet
the same machine. Empty tasks are the worst case: a scheduler costs something for each task, and
these do nothing else.
"""

from __future__ import annotations

import argparse
import threading
import time
from typing import Any

import numpy as np

import decima.spark
from decima.spark.loading import LOADING_S
from decima.spark.trial import local_session

JOBS = 4
SLOTS = 16


def run_jobs(spark: Any, tasks: int) -> float:
    """Seconds for `JOBS` concurrent jobs with `tasks` empty tasks in all."""
    each = tasks // JOBS

    def job(number: int) -> None:
        spark.sparkContext.setLocalProperty("decima.job", f"job {number}")
        spark.range(0, each, 1, each).selectExpr("count(1)").collect()

    threads = [threading.Thread(target=job, args=(number,)) for number in range(JOBS)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - began


def main() -> None:
    """Print the figures beside their targets."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--policy", default="strict_fair")
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    spark = local_session(SLOTS, fair=False)
    run_jobs(spark, given.tasks)
    with decima.spark.attach(spark, given.policy, ready_s=LOADING_S):
        run_jobs(spark, given.tasks)
    plain, attached, cpu_us, round_us = [], [], [], []
    waits = []
    for _ in range(given.rounds):
        plain_cpu_s = -time.process_time()
        plain.append(run_jobs(spark, given.tasks))
        plain_cpu_s += time.process_time()
        with decima.spark.attach(spark, given.policy, ready_s=LOADING_S) as scheduler:
            cpu_s = -time.process_time()
            attached.append(run_jobs(spark, given.tasks))
            cpu_s += time.process_time()
            status = scheduler.status()
        cpu_us.append(1e6 * (cpu_s - plain_cpu_s) / given.tasks)
        counters = status.jvm
        round_us.append(counters["offer_round_ns"] / max(1, counters["offer_rounds"]) / 1000)
        waits.append(counters["first_decision_ms_median"])
    spark.stop()
    slower = np.median(np.array(attached) / np.array(plain)) - 1
    rate = given.tasks / np.median(plain)
    print(f"{given.tasks:,} empty tasks of {JOBS} jobs, {SLOTS} slots, policy {given.policy}")
    print(f"plain Spark             {rate:8,.0f} tasks/s")
    print(f"attached                {100 * slower:+8.1f} % of the time (target: at most +20 %)")
    print(f"JVM, an offer round     {np.median(round_us):8.0f} µs (target: below 1,000)")
    print(f"Python, a task          {np.median(cpu_us):8.0f} µs of CPU (target: below 250)")
    print(f"stage to first decision {np.median(waits):8.1f} ms, median (target: below 30)")


if __name__ == "__main__":
    main()
