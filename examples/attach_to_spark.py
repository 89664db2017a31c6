"""Attach a policy to a live PySpark, run concurrent jobs, and see what it decided.

A large job and, shortly after it, three small ones run twice: under Spark's own FIFO order, where
the small ones wait for the large one, and with a policy attached. A plan orders the stages and
limits the slots of each job; the decision log has all plans.

    python examples/attach_to_spark.py
    python examples/attach_to_spark.py --policy strict_fair --tasks 40

Needs Java 17 or newer and pyspark: pip install 'decima-scheduler[spark]'.
"""

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import decima.spark
from decima.errors import PolicyError
from decima.spark.decision_log import DecisionHistory, read_decision_log
from traces.loopback import LOOPBACK

SMALL = ("small 1", "small 2", "small 3")
TASK_S = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--policy", default="tuned_srw")
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--tasks", type=int, default=80, help="of the large job")
    given = parser.parse_args()
    check_requirements()
    spark = start_spark(given.slots)
    try:
        run_jobs(spark, 2 * given.slots)  # to warm up: the first tasks start Python workers
        plain_s = run_jobs(spark, given.tasks)
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "decisions.jsonl"
            with decima.spark.attach(spark, given.policy, decision_log=log) as scheduler:
                attached_s = run_jobs(spark, given.tasks)
                status = scheduler.status()
            history = read_decision_log(log)
    except (decima.spark.AttachError, PolicyError) as error:
        sys.exit(f"error: {error}")
    finally:
        spark.stop()
    show_plans(history)
    print(f"\n{status.plans} plans, {status.fallbacks} fallbacks, mode {status.mode}. Detached.\n")
    print(f"{'job':<10}{'Spark FIFO':>12}{given.policy:>16}")
    for job, took_s in plain_s.items():
        print(f"{job:<10}{took_s:>10.1f} s{attached_s[job]:>14.1f} s")


def check_requirements() -> None:
    """Exit with one line if pyspark or Java is missing."""
    if importlib.util.find_spec("pyspark") is None:
        sys.exit("error: pyspark is not installed: pip install 'decima-scheduler[spark]'")
    name = "JAVA_HOME" if os.environ.get("JAVA_HOME") else "PATH"  # as Spark's start script
    if shutil.which(f"{os.environ[name]}/bin/java" if name == "JAVA_HOME" else "java") is None:
        sys.exit(f"error: Spark needs Java 17 or newer, and {name} has none")


def start_spark(slots: int) -> Any:
    """Start a quiet local Spark with so many slots."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{slots}]").appName("attach_to_spark")
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    for key, value in {**quiet, **LOOPBACK, "spark.log.level": "ERROR"}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def run_jobs(spark: Any, large_tasks: int) -> dict[str, float]:
    """Run one large job and three small ones from threads; seconds that each took."""

    def run(name: str, tasks: int, after_s: float) -> tuple[str, float]:
        time.sleep(after_s)
        began_s = time.monotonic()
        context = spark.sparkContext
        context.setLocalProperty("decima.job", name)  # what counts as one job, and its name
        context.parallelize(range(tasks), tasks).foreach(lambda _: time.sleep(TASK_S))
        return name, time.monotonic() - began_s

    with ThreadPoolExecutor() as threads:
        large = threads.submit(run, "large", large_tasks, 0.0)
        small = [threads.submit(run, name, 4, 0.5 * (1 + i)) for i, name in enumerate(SMALL)]
        return dict(done.result() for done in (large, *small))


def show_plans(history: DecisionHistory) -> None:
    """Print the plans that changed the limits, by time."""
    print("  time  slots that each job may hold; * those of the job that comes first")
    began_ms, shown = history.plans[0].time_ms, None
    for plan in history.plans:
        job_of = {one.stage: one.job for one in plan.sets}
        first = next((job_of[stage] for stage in plan.chosen if stage in job_of), None)
        limits = [f"{job} {n}{'*' * (job == first)}" for job, n in plan.limits.items()]
        if limits and limits != shown:
            print(f"{(plan.time_ms - began_ms) / 1000:>5.1f}s  {', '.join(limits)}")
            shown = limits


if __name__ == "__main__":
    main()
