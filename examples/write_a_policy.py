"""Write a scheduling policy and compare it with strict fair sharing.

A policy is any object with a `name` and a `decide(observation)`. On p executors a job needs at
least max(critical path, remaining work / p), so more than

    useful = remaining work / critical path

executors shorten it little. `UsefulShares` gives no job more than that and divides what small jobs
leave among the others (max-min fairness); the job with the least work left comes first. The bound
is a rough one, so `slack` scales it: two values are compared.

    python examples/write_a_policy.py
    python examples/write_a_policy.py --executors 20 --jobs 100 --slack 0.75
"""

import argparse
from functools import partial

import numpy as np
from numpy.typing import NDArray

from decima import EvaluationConfig, evaluate
from spark_sim import PASS, Action, Observation

BASELINE = "strict_fair"


class UsefulShares:
    """Max-min fair shares, capped by the executors that can still shorten each job."""

    def __init__(self, slack: float) -> None:
        self.slack = slack
        self.name = f"useful_shares x{slack:g}"

    def decide(self, observation: Observation) -> Action:
        """Return the stage to serve next, and how many executors its job may then hold."""
        jobs = observation.jobs[observation.active]
        useful = np.array([self.useful(observation, job) for job in observation.active])
        level = water_level(useful, observation.num_executors)
        limits = np.ceil(np.minimum(useful, level)).astype(int)
        for index in np.argsort(jobs["remaining_ms"], kind="stable"):
            stage = best_stage(observation, observation.active[index])
            if stage is not None and limits[index] in observation.legal_limits(stage):
                return Action(stage, int(limits[index]))
        return PASS

    def useful(self, observation: Observation, job: int) -> float:
        """Executors that shorten the rest of a job, from 1 to all of them."""
        row = observation.jobs[job]
        stages = observation.stages[stages_of(observation, job)]
        has_tasks_left = stages["launched"] < stages["num_tasks"]
        path_ms = stages["critical_path_ms"][has_tasks_left].max(initial=1.0)
        count = self.slack * row["remaining_ms"] / path_ms
        return float(np.clip(count, 1, observation.num_executors))


def water_level(useful: NDArray[np.float64], executors: int) -> float:
    """Return the level whose sum of min(useful, level) is `executors`, infinity if none is."""
    left = float(executors)
    ascending = np.sort(useful)
    for index, amount in enumerate(ascending):
        share = left / (len(ascending) - index)
        if amount >= share:
            return share
        left -= amount
    return float("inf")


def stages_of(observation: Observation, job: int) -> NDArray[np.int64]:
    """Rows of a job's stages."""
    row = observation.jobs[job]
    return np.arange(row["first_stage"], row["first_stage"] + row["num_stages"])


def best_stage(observation: Observation, job: int) -> int | None:
    """Return the stage on the longest path, preferably a runnable one; None if none is open."""
    rows = stages_of(observation, job)
    rows = rows[observation.stages["open"][rows] == 1]
    if len(rows) == 0:
        return None
    stages = observation.stages[rows]
    return int(rows[np.lexsort((stages["critical_path_ms"], stages["runnable"]))[-1]])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--slack", type=float, nargs="+", default=[0.25, 0.75])
    parser.add_argument("--executors", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=50, help="in each sequence")
    parser.add_argument("--sequences", type=int, default=10)
    given = parser.parse_args()
    config = EvaluationConfig(
        policies=(BASELINE,),
        executors=given.executors,
        jobs=given.jobs,
        sequences=given.sequences,
    )
    # `own` takes what makes a policy: each sequence gets a new one.
    report = evaluate(config, own=[partial(UsefulShares, slack) for slack in given.slack])
    print(f"{'policy':<22}{'average':>9}{'p95':>10}  average against {BASELINE} [95 %]")
    for name, figures in report.policies.items():
        difference = "" if name == BASELINE else report.difference(name).words("+.1f", " %")
        print(
            f"{name:<22}{figures.avg_jct_s.mean():>7.1f} s{figures.p95_jct_s.mean():>8.1f} s  "
            f"{difference}"
        )


if __name__ == "__main__":
    main()
