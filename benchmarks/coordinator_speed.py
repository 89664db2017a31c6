"""Time and memory of the coordinator's plans: 50 applications on 500 executors, without Spark.

`python -m benchmarks.coordinator_speed --policies strict_fair,decima` prints the CPU time of a
plan, and how much memory grows over the jobs. Executors follow each target at once.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import numpy as np

from decima.spark.coordinator.messages import read_registration, read_report
from decima.spark.coordinator.planning import Coordinator
from decima.spark.coordinator.settings import CoordinatorSettings
from decima.spark.loading import ready_policy

STAGES = 8


class Work:
    """A chain of stages, of which tasks start and end in order."""

    def __init__(self, rng: np.random.Generator, begin_ms: float) -> None:
        self.tasks = rng.integers(1, 60, STAGES)
        self.done = 0
        self.running = 0
        self.begin_ms = begin_ms

    def go_on(self, executors: int) -> bool:
        """End what runs and start as many tasks; return whether the job is over."""
        self.done += self.running
        stage = int(np.searchsorted(np.cumsum(self.tasks), self.done, side="right"))
        if stage == STAGES:
            return True
        self.running = min(executors, int(np.cumsum(self.tasks)[stage]) - self.done)
        return False

    def columns(self, now_ms: float) -> dict[str, object]:
        """Return the columns of a report."""
        before = np.cumsum(self.tasks) - self.tasks
        finished = np.clip(self.done - before, 0, self.tasks)
        launched = np.clip(self.done + self.running - before, 0, self.tasks)
        runnable = np.append(True, (finished == self.tasks)[:-1])
        return {
            "time_ms": now_ms - self.begin_ms,
            "num_tasks": self.tasks.tolist(),
            "launched": launched.tolist(),
            "finished": finished.tolist(),
            "runnable": runnable.tolist(),
            "mean_ms": [10_000.0] * STAGES,
            "critical_path_ms": [10_000.0 * (STAGES - place) for place in range(STAGES)],
            "first_child": [*range(STAGES), STAGES - 1],
            "children": list(range(1, STAGES)),
        }


def measure(policy: str, apps: int, slots: int, jobs: int) -> tuple[list[float], int]:
    """Return the CPU milliseconds of each plan, and the bytes that memory grew by."""
    rng = np.random.default_rng(0)
    made = Coordinator(CoordinatorSettings(slots, policy), ready_policy(policy))
    keys = []
    for number in range(apps):
        message = {"id": f"a{number}", "name": "a", "user": "u", "queue": "", "weight": 1.0}
        keys.append(made.register(read_registration({**message, "most": slots, "tasks": 1}), 0, 0))
    work = {key: Work(rng, 0.0) for key in keys}
    took_ms: list[float] = []
    ended, now_ms, before = 0, 0.0, 0
    while ended < jobs:
        now_ms += 1_000.0
        for key in keys:
            granted = made.applications[key].granted
            if work[key].go_on(granted):
                ended += 1
                work[key] = Work(rng, now_ms)
            told = {"stages": work[key].columns(now_ms), "registered": granted, "number": 0}
            made.report(key, read_report(told), now_ms)
        began = time.process_time()
        made.plan(now_ms)
        took_ms.append(1_000 * (time.process_time() - began))
        if before == 0 and ended > jobs // 10:
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0] + 1
        if tracemalloc.is_tracing() and ended < jobs // 5:
            before = tracemalloc.get_traced_memory()[0]
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    if made.failures:
        raise RuntimeError(f"{made.failures} plans failed")
    return took_ms, grown


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", default="strict_fair,tuned_srw,decima")
    parser.add_argument("--jobs", type=int, default=10_000)
    given = parser.parse_args()
    for policy in given.policies.split(","):
        untraced, _ = measure(policy, 50, 500, given.jobs // 20)
        _, grown = measure(policy, 50, 500, given.jobs)
        median, p99 = np.quantile(untraced, [0.5, 0.99])
        print(
            f"{policy}: {median:.1f} ms median, {p99:.1f} ms p99, {max(untraced):.1f} ms most; "
            f"memory {grown / 1024:+.0f} KiB over {given.jobs:,} jobs",
            flush=True,
        )


if __name__ == "__main__":
    main()
