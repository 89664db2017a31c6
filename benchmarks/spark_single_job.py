"""Overhead where there is nothing to schedule: one job after the other, warm and cold.

    python -m benchmarks.spark_single_job [--policy decima] [--rounds 9] [--cold 5]

Warm: ten jobs of two stages in one application, plain and attached in turn. Cold: a new application
timed from its session's start to the end of its first job, so that starting the scheduler counts.
The tasks of a job sleep 20 ms, four waves on eight slots.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import nullcontext
from typing import Any

import numpy as np

from benchmarks.quality import percent
from decima.rl.statistics import difference_percent
from decima.spark import attach
from decima.spark.loading import LOADING_S
from decima.spark.replay import Replayer
from decima.spark.trial import local_session

SLOTS = 8
JOBS = 10
GRAPH = ":" + ",".join(["20"] * 32) + ";0:20,20"
COLD = "--one-cold"


def run_jobs(replayer: Replayer, jobs: int) -> float:
    """Seconds for jobs that follow each other."""
    began = time.monotonic()
    for _ in range(jobs):
        replayer.run_one("job", GRAPH)
    return time.monotonic() - began


def warm(policy: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of every round, plain and attached; the first two rounds warm the JVM up."""
    spark = local_session(SLOTS, fair=False)
    replayer = Replayer(spark)
    found: dict[str, list[float]] = {"plain": [], policy: []}
    for round_ in range(-2, rounds):
        for way in ("plain", policy) if round_ % 2 else (policy, "plain"):
            attached: Any = nullcontext()
            if way == policy:
                attached = attach(spark, policy, ready_s=LOADING_S)
            with attached:
                took_s = run_jobs(replayer, JOBS)
            if round_ >= 0:
                found[way].append(took_s)
    spark.stop()
    return found


def one_cold(policy: str | None) -> float:
    """Seconds from the start of a session to the end of its first job, in a fresh process."""
    began = time.monotonic()
    spark = local_session(SLOTS, fair=False)
    replayer = Replayer(spark)
    with nullcontext() if policy is None else attach(spark, policy):
        run_jobs(replayer, 1)
    took_s = time.monotonic() - began
    spark.stop()
    return took_s


def cold(policy: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of first jobs, each in a process of its own."""
    found: dict[str, list[float]] = {"plain": [], policy: []}
    for round_ in range(rounds):
        for way in ("plain", policy) if round_ % 2 else (policy, "plain"):
            command = [sys.executable, "-m", "benchmarks.spark_single_job", COLD, way]
            told = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
            found[way].append(float(told.stdout.split()[-1]))
    return found


def show(label: str, found: dict[str, list[float]], policy: str) -> None:
    """Medians, and the paired difference with its 95 % interval."""
    plain_s, attached_s = np.array(found["plain"]), np.array(found[policy])
    words = percent(difference_percent(attached_s, plain_s))
    both = f"{np.median(plain_s):.3f} s plain, {np.median(attached_s):.3f} s attached"
    print(f"{label}: {both}, {words}")


def main() -> None:
    """Print both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policy", default="decima")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cold", type=int, default=5)
    parser.add_argument(COLD, dest="one_cold", help="time one application; for this program itself")
    given = parser.parse_args()
    if given.one_cold:
        print(one_cold(None if given.one_cold == "plain" else given.one_cold))
        return
    show(f"{JOBS} jobs, warm", warm(given.policy, given.rounds), given.policy)
    show("first job, cold", cold(given.policy, given.cold), given.policy)


if __name__ == "__main__":
    main()
