"""Do order and limits hold on a real Spark? Random ones, checked against Spark's own event log.

    python -m benchmarks.spark_exactness [--runs 20] [--jobs 6]

Each run attaches a policy that draws stages and limits at random, new ones at each decision, while
random graphs of sleeping tasks run. Afterwards every launch in the event log is held against the
plan that was in force: no job may have been at its limit, and no stage earlier in the plan may have
had a task to start and room under its job's limit. The counters of the plugin's classes are shown
too.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import decima.spark
from decima.spark.decision_log import LoggedPlan, read_decision_log
from decima.spark.replay import Replayer, at_scale
from spark_sim import Action, Observation
from traces.loopback import LOOPBACK
from traces.spark_log.application import read_application
from traces.spark_log.events import OWN_JOB
from traces.spark_log.files import find_logs
from traces.spark_log.summary import ImportSummary
from traces.synthetic import LayeredShape, layered_trace

SLOTS = 8
TOLERANCE_MS = 100
"""Spark stamps the end of a task some time after its slot was free again"""
SHAPE = LayeredShape(stages=(3, 6), tasks=(2, 12), task_ms=(150.0, 400.0))


def job_of(properties: Mapping[str, str], spark_job: int) -> str:
    """The job that a Spark job is part of, by the plugin's name (`Owners.java`)."""
    named = properties.get(OWN_JOB)
    return f"spark {spark_job}" if named is None else f"job {named}"


class RandomPlans:
    """Policy of random plans: any open stage, and one of its job's lowest limits."""

    name = "random plans"

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - no secret

    def decide(self, observation: Observation) -> Action:
        stage = int(self._rng.choice(list(observation.open_stages())))
        return Action(stage, self._rng.choice(list(observation.legal_limits(stage))[:4]))


class Launch(NamedTuple):
    """One task of the event log."""

    time_ms: int
    finish_ms: int
    stage: int
    job: str


class Found(NamedTuple):
    """Findings of a check."""

    launches: int
    """under a plan that chose their stage"""
    over_limit: int
    out_of_order: int
    skipped: int
    """while the plan was changing, or of stages that no plan had chosen"""


@contextmanager
def logging_session(folder: Path) -> Iterator[Any]:
    """A local Spark that writes one plain event log into `folder`."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local[{SLOTS}]")
        .config(map=dict(LOOPBACK))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", folder.as_uri())
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.rolling.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def run(spark: Any, seed: int, jobs: int, log: Path) -> dict[str, Any]:
    """Jobs under random plans; the counters of the classes in the JVM."""
    rng = np.random.default_rng(seed)
    trace = at_scale(layered_trace(rng, jobs, SHAPE), 1.0)
    arrival_s = np.cumsum(rng.exponential(0.3, jobs))
    replayer = Replayer(spark)
    named = [replace(job, name=f"run{seed}-{job.name}") for job in trace.jobs]
    with decima.spark.attach(spark, policy=RandomPlans(seed), decision_log=log) as scheduler:
        replayer.run(named, arrival_s)
        return scheduler.status().jvm


def read_launches(event_log: Path) -> list[Launch]:
    """All tasks of an event log, by time."""
    (log,) = find_logs([event_log])
    application = read_application(log, ImportSummary())
    job_of_stage = {
        info.stage: job_of(job.properties, number)
        for number, job in application.jobs.items()
        for info in job.stages
    }
    tasks = application.tasks
    rows = zip(tasks.launch_ms, tasks.finish_ms, tasks.stage, strict=True)
    return sorted(Launch(*row, job_of_stage[row[2]]) for row in rows)


def check(launches: list[Launch], plans: Sequence[LoggedPlan]) -> Found:
    """Hold the launches while plans were in force against these."""
    begins = [plan.applied_ms[1] for plan in plans]
    over = out_of_order = counted = skipped = 0
    for index, launch in enumerate(launches):
        number = bisect_right(begins, launch.time_ms) - 1
        if number < 0:
            continue
        plan = plans[number]
        changes_ms = plans[number + 1].applied_ms[0] if number + 1 < len(plans) else math.inf
        is_changing = not begins[number] < launch.time_ms < changes_ms
        if is_changing or launch.stage not in plan.chosen:
            skipped += 1
            continue
        counted += 1
        before = launches[:index]
        over += _held(before, launch.job, launch.time_ms) >= plan.limits[launch.job]
        out_of_order += _is_passed_over(launches, launch, plan)
    return Found(counted, over, out_of_order, skipped)


def _held(before: Iterable[Launch], job: str, time_ms: int) -> int:
    return sum(
        launched.job == job and launched.finish_ms > time_ms + TOLERANCE_MS for launched in before
    )


def _is_passed_over(launches: list[Launch], launch: Launch, plan: LoggedPlan) -> bool:
    """Return whether a stage before that of `launch` in the plan could have had its slot."""
    for stage in plan.chosen[: plan.chosen.index(launch.stage)]:
        of_stage = [launched for launched in launches if launched.stage == stage]
        # Those launched around that time may have come first.
        waits = any(launched.time_ms > launch.time_ms + TOLERANCE_MS for launched in of_stage)
        job = of_stage[0].job if of_stage else ""
        held = sum(
            launched.job == job and launched.time_ms <= launch.time_ms + TOLERANCE_MS
            and launched.finish_ms > launch.time_ms - TOLERANCE_MS
            for launched in launches
        )  # fmt: skip
        if waits and held < plan.limits[job]:
            return True
    return False


def main() -> None:
    """Run, check, and print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=6)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counters = []
        with logging_session(folder) as spark:
            for seed in range(arguments.runs):
                counters.append(run(spark, seed, arguments.jobs, folder / f"plans-{seed}.jsonl"))
                print(f"run {seed}: {counters[-1]['launches_under_limit']} launches", flush=True)
        launches = read_launches(next(folder.glob("local-*")))
        for seed, counted in enumerate(counters):
            plans = read_decision_log(folder / f"plans-{seed}.jsonl").plans
            outcome = check(
                [launch for launch in launches if launch.job.startswith(f"job run{seed}-")], plans
            )
            print(
                f"run {seed}: {len(plans)} plans; JVM: {counted['launches_under_limit']} launches, "
                f"{counted['launches_over_limit']} over a limit; event log: "
                f"{outcome.launches} launches, {outcome.over_limit} over a limit, "
                f"{outcome.out_of_order} out of order "
                f"({outcome.skipped} while a plan changed)"
            )


if __name__ == "__main__":
    main()
