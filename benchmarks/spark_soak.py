"""One attached session for a long time: 20,000 jobs, and the objects that remain.

    python -m benchmarks.spark_soak --json runs/soak.json [--jobs 20000] [--policy decima]

Eight threads run one small job after the other (two stages, eight tasks of 20 ms) on eight slots
of a local Spark. After every thousand jobs, with nothing running: the JVM's heap after a collection
and its threads, memory and threads of this Python, the plans'
times over the newest thousand, and the files of the decision log, which rotate.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.spark_tiny_jobs import rss_mb
from decima.spark import DecisionLogFiles, Scheduler, attach
from decima.spark.loading import LOADING_S
from decima.spark.replay import JOB_PROPERTY, Replayer
from decima.spark.trial import local_session
from traces.files.writing import write_json

SLOTS = THREADS = 8
GRAPH = ":20,20,20,20,20,20;0:20,20"
STEP = 1_000
MB = 1 << 20
LOG_BYTES, LOG_FILES = 20_000_000, 3


def run_jobs(spark: Any, replayer: Replayer, first: int, jobs: int) -> None:
    """Submit `jobs` jobs from all threads, each with its own name."""
    context = spark.sparkContext

    def submit(thread: int) -> None:
        for number in range(first + thread, first + jobs, THREADS):
            context.setLocalProperty(JOB_PROPERTY, f"job {number}")
            replayer.run_one(f"job {number}", GRAPH)

    threads = [threading.Thread(target=submit, args=(row,), daemon=True) for row in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def look(spark: Any, scheduler: Scheduler, log: Path) -> dict[str, float]:
    """Return the numbers of objects in use now."""
    management = spark._jvm.java.lang.management.ManagementFactory
    spark._jvm.java.lang.System.gc()
    status = scheduler.status()
    return {
        "heap_mb": management.getMemoryMXBean().getHeapMemoryUsage().getUsed() / MB,
        "jvm_threads": management.getThreadMXBean().getThreadCount(),
        "python_mb": rss_mb(),
        "python_threads": threading.active_count(),
        "plans": status.plans,
        "plan_ms_median": status.plan_ms_median,
        "plan_ms_p90": status.plan_ms_p90,
        "fallbacks": status.fallbacks,
        "faults": status.jvm["faults"],
        "over_limit": status.jvm["launches_over_limit"],
        "log_mb": sum(one.stat().st_size for one in log.parent.glob(f"{log.name}*")) / MB,
    }


def main() -> None:
    """Print a line for each step, and what has grown since the first."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policy", default="decima")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    spark = local_session(SLOTS, fair=True)
    replayer = Replayer(spark)
    found: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "decisions.jsonl"
        files = DecisionLogFiles(log, LOG_BYTES, LOG_FILES)
        with attach(spark, given.policy, decision_log=files, ready_s=LOADING_S) as scheduler:
            for first in range(0, given.jobs, STEP):
                run_jobs(spark, replayer, first, STEP)
                found.append({"jobs": first + STEP} | look(spark, scheduler, log))
                words = ", ".join(f"{name} {value:.1f}" for name, value in found[-1].items())
                print(words, flush=True)
                write_json(given.json, found)
    spark.stop()
    for name in ("heap_mb", "jvm_threads", "python_mb", "python_threads"):
        values = np.array([one[name] for one in found])
        print(f"{name}: {values[0]:.1f} at first, {values.max() - values[0]:+.1f} at most, "
              f"{values[-1] - values[0]:+.1f} at the end")  # fmt: skip


if __name__ == "__main__":
    main()
