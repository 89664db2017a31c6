"""What the scheduler writes to its decision log, at the end above all."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from decima.spark.jobs import FORGET_MS, LiveJobs
from decima.spark.planning import Guard, Plan, Planner
from decima.spark.reports import JobDone, LiveEvent, Measured, SessionReport

from decima.registry import Heuristic
from decima.spark.decision_log import DecisionLog, read_decision_log
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


def job_report(time_ms: int, *events: LiveEvent, measured: int | None = None) -> SessionReport:
    tasks = () if measured is None else (Measured(measured, 1, 300.0),)
    return SessionReport(time_ms, 8, 0, False, True, 0, (), events, tasks)


def test_a_job_is_written_once_it_has_ended(tmp_path: Path) -> None:
    """Not a minute after: a process may be killed. One that goes on is written again, as one that
    has grown, and its last row counts.
    """
    path = tmp_path / "log.jsonl"
    log, live = DecisionLog(path, mode="exact", policy="fifo"), LiveJobs()
    begun = [
        JobStart(number, at_ms, (StageInfo(number, 1, (), bytes([number])),), {"decima.job": "q"})
        for number, at_ms in ((0, 1_000), (1, 3_000))
    ]
    reports = [
        job_report(1_400, begun[0], JobDone(0, 1_300), measured=0),
        job_report(1_800),
        job_report(2_200),
        job_report(3_200, begun[1], measured=1),
        job_report(3_600, JobDone(1, 3_500)),
        job_report(4_000),
    ]
    written = []
    for report in reports:
        live.update(report)
        log.note_jobs(live.ended)
        written.append(path.read_text().count('"job"'))
    assert written == [0, 1, 1, 1, 1, 2]
    assert live.untold() == []
    log.close()
    (job,) = read_decision_log(path).jobs
    assert (job.arrival_ms, job.completion_ms, len(job.job.stages)) == (1_000, 3_500, 2)


def test_a_decision_log_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Names of jobs may be the text of queries, whatever the umask allows."""
    before = os.umask(0o022)
    try:
        DecisionLog(tmp_path / "log.jsonl", mode="exact", policy="fifo").close()
        DecisionLog(tmp_path / "log.jsonl", mode="exact", policy="fifo").close()
    finally:
        os.umask(before)
    assert {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {
        "log.jsonl": 0o600, "log.jsonl.1": 0o600,
    }  # fmt: skip


def test_logs_of_processes_that_followed_each_other_are_read_as_one(tmp_path: Path) -> None:
    """Rows of a worker that was killed and started again."""
    path = tmp_path / "log.jsonl"
    for number in range(2):
        live = LiveJobs()
        stages = (StageInfo(0, 1, (), b"a"),)
        begun = JobStart(0, 1_000, stages, {"decima.job": f"q{number}"})
        live.update(job_report(2_000, begun, JobDone(0, 1_300), measured=0))
        log = DecisionLog(path, mode="exact", policy="fifo", run="one")
        log.note_jobs(live.ended)
        log.close()
    assert {one.key for one in read_decision_log(path).jobs} == {"job q0", "job q1"}
