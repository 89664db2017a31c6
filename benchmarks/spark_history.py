"""Cost of a plan after a long history: one job group whose Spark jobs never pause.

    python -m benchmarks.spark_history [--policy tuned_srw] [--jobs 100 4000 16000]

No Spark runs: reports are made as its classes would write them. Each Spark job has two stages of
four tasks; another job waits all the time. Reported are the median CPU milliseconds to take in
reports and to plan, over the last fifty Spark jobs before each mark.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from decima.spark.jobs import LiveJobs
from decima.spark.planning import Guard, Planner
from decima.spark.reports import JobDone, LiveEvent, Measured, SessionReport, StageDone, TaskSet

from decima.registry import Heuristic
from traces.spark_log.events import JobStart, StageInfo

SLOTS = 16
TASKS = 4
STEP_MS = 20
LOOKED_AT = 50
OTHER = 10**9
"""ids of the job that waits"""


def report(time_ms: int, *events: LiveEvent, sets: tuple[TaskSet, ...] = ()) -> SessionReport:
    """Return the JVM's report; another job waits for 100 slots. Tasks take 100 ms."""
    waiting = TaskSet(OTHER, 0, f"spark {OTHER}", 100, 0, 0)
    ended = (event.stage for event in events if isinstance(event, StageDone))
    measured = tuple(Measured(stage, TASKS, 100.0 * TASKS) for stage in ended)
    return SessionReport(time_ms, SLOTS, 0, False, True, 0, (*sets, waiting), events, measured)


def spark_job(live: LiveJobs, planner: Planner | None, number: int) -> tuple[float, float]:
    """Milliseconds of the reports and of the plan of one Spark job from its start to its end."""
    first, now_ms = 2 * number, number * STEP_MS
    group = {"spark.jobGroup.id": "endless"}
    stages = (
        StageInfo(first, TASKS, (), first.to_bytes(8)),
        StageInfo(first + 1, TASKS, (first,), (first + 1).to_bytes(8)),
    )
    sets = (TaskSet(first, 0, "group endless", TASKS, 0, 1),)
    ends = StageDone(first, 0, True), StageDone(first + 1, 0, True), JobDone(number, now_ms + 10)
    began = time.process_time()
    live.update(report(now_ms, JobStart(number, now_ms, stages, group), sets=sets))
    told = time.process_time()
    if planner is not None:
        planner.plan(live)
    planned = time.process_time()
    live.update(report(now_ms + 10, *ends))
    ended = time.process_time()
    return 1000 * (told - began + ended - planned), 1000 * (planned - told)


def main() -> None:
    """Print a line for each mark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policy", default="tuned_srw")
    parser.add_argument("--jobs", type=int, nargs="+", default=[100, 4_000, 16_000])
    given = parser.parse_args()
    policy = Heuristic(given.policy)
    planner, live = Planner(lambda _trace: policy, Guard(decision_s=60.0, starve_s=1e9)), LiveJobs()
    other = JobStart(OTHER, 0, (StageInfo(OTHER, 100, (), b"other"),), {})
    live.update(report(0, other))
    planner.plan(live)
    costs: list[tuple[float, float]] = []
    for number in range(max(given.jobs)):
        is_near = any(0 <= mark - 1 - number < LOOKED_AT for mark in given.jobs)
        costs.append(spark_job(live, planner if is_near else None, number))
        if number + 1 in given.jobs:
            report_ms, plan_ms = np.median(costs[-LOOKED_AT:], axis=0)
            words = f"{report_ms:7.2f} ms for its reports, {plan_ms:7.2f} ms for a plan"
            print(f"{number + 1:>7,} Spark jobs: {words}")
    planner.close()


if __name__ == "__main__":
    main()
