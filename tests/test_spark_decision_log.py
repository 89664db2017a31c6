"""What the scheduler writes to its decision log, at the end above all."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from decima.registry import Heuristic
from decima.spark.decision_log import DecisionLog
from decima.spark.jobs import FORGET_MS, LiveJobs
from decima.spark.planning import Guard, Plan, Planner
from decima.spark.reports import JobDone, LiveEvent, SessionReport
from decima.spark.scheduler import Scheduler
from traces.spark_log.events import JobStart, StageInfo


class Ended:
    """A session of two jobs that lets go after the first report; whoever asks again asks long
    after.
    """

    LATER_MS = 2 * FORGET_MS

    def __init__(self) -> None:
        self.reports = 0

    def attach(self) -> None:
        pass

    def detach(self) -> None:
        pass

    def wait(self, timeout_ms: int) -> SessionReport:
        self.reports += 1
        stages = ((StageInfo(0, 1, (), b"a"),), (StageInfo(1, 1, (), b"b"),))
        if self.reports == 1:
            begun = [
                JobStart(number, 1_000, own, {"decima.job": f"job {number}"})
                for number, own in enumerate(stages)
            ]
            events: tuple[LiveEvent, ...] = (*begun, JobDone(0, 2_000))
            return SessionReport(2_500, 8, 0, False, False, 0, (), events)
        later_ms = 2_500 + self.LATER_MS
        return SessionReport(later_ms, 8, 0, False, False, 0, (), (JobDone(1, later_ms),))

    def apply(self, plan: Plan, number: int) -> None:
        pass

    def counters(self) -> dict[str, Any]:
        return {}

    def is_stopped(self) -> bool:
        return False


def test_a_job_that_ended_long_before_detach_is_in_the_log(tmp_path: Path) -> None:
    """Once, as is the one whose end comes with the last report."""
    control = Ended()
    planner = Planner(lambda _trace: Heuristic("strict_fair"), Guard())
    opened = partial(DecisionLog, tmp_path / "log.jsonl", mode="exact", policy="strict_fair")
    scheduler = Scheduler(
        control, planner, LiveJobs(), mode="exact", policy="strict_fair",
        open_log=opened,
    )  # fmt: skip
    scheduler.start()
    scheduler._thread.join(timeout=60)
    assert control.reports == 1
    scheduler.detach()
    assert control.reports == 2
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    jobs = [row for row in map(json.loads, lines) if "job" in row]
    assert sorted((row["job"], row["completion_ms"]) for row in jobs) == [
        ("job job 0", 2_000), ("job job 1", 2_500 + Ended.LATER_MS),
    ]  # fmt: skip
