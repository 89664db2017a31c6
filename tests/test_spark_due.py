"""Which reports call for a plan: what starts by itself needs none."""

from __future__ import annotations

from typing import Any

import pytest
from decima.spark.due import SETTLE_S, Due
from decima.spark.jobs import LiveJobs
from decima.spark.planning import Plan, Planner
from decima.spark.reports import SessionReport, TaskSet

from decima.spark import Guard, Scheduler
from spark_sim import PASS
from tests.spark_work import Faulty
from traces.spark_log.events import JobStart, StageInfo

SLOTS = 8


def report(*sets: TaskSet) -> SessionReport:
    return SessionReport(0, SLOTS, 0, False, True, 0, sets, ())


def tasks(stage: int, waiting: int, running: int = 0, job: str = "") -> TaskSet:
    return TaskSet(stage, 0, job or f"spark {stage}", waiting + running, 0, running)


def plan(chosen: tuple[int, ...], considered: tuple[int, ...], **limits: int) -> Plan:
    by_job = {name.replace("_", " "): limit for name, limit in limits.items()}
    return Plan(chosen, by_job, considered, "test")


NO_PLAN = None


@pytest.mark.parametrize(
    ("sets", "in_force", "is_due"),
    [
        ((tasks(0, 0, 8),), NO_PLAN, False),
        ((tasks(0, 8),), NO_PLAN, False),
        ((tasks(0, 9),), NO_PLAN, True),
        ((tasks(0, 2, 4), tasks(1, 2)), NO_PLAN, False),
        ((tasks(0, 2, 4), tasks(1, 3)), NO_PLAN, True),
        ((tasks(0, 2),), plan((), (0,)), True),
        ((tasks(0, 2),), plan((0,), (0,), spark_0=2), False),
        ((tasks(0, 2, 1),), plan((0,), (0,), spark_0=2), True),
        ((tasks(1, 2, 0, "spark 0"),), plan((0,), (0,), spark_0=1), True),
        ((tasks(1, 2),), plan((0,), (0,), spark_0=1), False),
    ],
    ids=[
        "nothing waits",
        "all fit",
        "one too many",
        "two jobs that fit",
        "two jobs that do not",
        "held back by the plan",
        "within its limit",
        "at its limit",
        "a new stage of a job at its limit",
        "another job than the plan's",
    ],
)
def test_what_starts_by_itself_needs_no_plan(
    sets: tuple[TaskSet, ...], in_force: Plan | None, is_due: bool
) -> None:
    """As many idle slots as waiting tasks, and no plan that keeps them apart."""
    assert Due().is_due(report(*sets), in_force, 0.0) == is_due


def test_what_has_not_started_after_a_while_does() -> None:
    """Something that we do not know of holds it back: the policy is asked."""
    due, waits = Due(), report(tasks(0, 2))
    assert not due.is_due(waits, None, 0.0)
    assert not due.is_due(waits, None, 0.9 * SETTLE_S)
    assert due.is_due(waits, None, 1.1 * SETTLE_S)
    assert not due.is_due(report(tasks(0, 2), tasks(1, 2)), None, 2.0), "another stage has come"


def test_a_full_cluster_is_planned_for_when_it_changes() -> None:
    """Not for each task that ends while slots are busy, but for each that leaves one idle."""
    due, busy = Due(), report(tasks(0, 9, SLOTS))
    assert due.is_due(busy, None, 0.0)
    assert not due.is_due(report(tasks(0, 5, SLOTS)), None, 0.1)
    assert due.is_due(report(tasks(0, 5, SLOTS - 1)), None, 0.2)
    assert due.is_due(report(tasks(0, 5, SLOTS), tasks(1, 1)), None, 0.3)


def test_what_a_plan_keeps_from_starting_is_due_at_every_report() -> None:
    """However few tasks it is, and whatever else comes and goes: else nobody would find out."""
    due, passed = Due(), plan((), (0,))
    for step in range(20):
        others = (tasks(step, 0, 1),) if step % 3 else ()
        found = report(tasks(0, 2), *others)
        assert due.is_due(found, passed, step * SETTLE_S / 2), f"report {step}"


class Idling:
    """A session of one job whose tasks start as soon as a plan lets them, and end at once; every
    report is a tenth of a second later.
    """

    TICK_MS = 100

    def __init__(self, num_tasks: int) -> None:
        self._left = num_tasks
        self._time_ms = self._since_ms = 1_000
        self._chosen: tuple[int, ...] = ()
        self._is_attached = False

    def attach(self) -> None:
        self._is_attached = True

    def detach(self) -> None:
        self._is_attached = False

    def wait(self, timeout_ms: int) -> SessionReport:
        stages = (StageInfo(0, 1_000, (), b"rdd"),)
        events = (JobStart(0, self._time_ms, stages, {}),) if self._time_ms == 1_000 else ()
        self._time_ms += self.TICK_MS
        if self._chosen:
            self._left -= SLOTS
            self._chosen, self._since_ms = (), self._time_ms
        sets = (TaskSet(0, 0, "spark 0", 1_000, 1_000 - self._left, 0),)
        idle_ms = self._time_ms - self._since_ms
        return SessionReport(
            self._time_ms, SLOTS, 0, False, self._is_attached, 0, sets, events,
            idle_ms=idle_ms, idle_slots=SLOTS if idle_ms else 0,
        )  # fmt: skip

    def apply(self, plan: Plan, number: int) -> None:
        self._chosen = plan.chosen

    def counters(self) -> dict[str, Any]:
        return {}

    def is_stopped(self) -> bool:
        return False


def test_a_policy_that_only_passes_is_found_out() -> None:
    """What is due, the watch for idle slots and the guard together: strict fair steps in at each
    bound, and after a few the scheduler lets go.
    """
    guard = Guard(decision_s=60.0, idle_s=0.5, failures=3)
    planner = Planner(lambda _trace: Faulty(lambda: PASS), guard)
    scheduler = Scheduler(Idling(300), planner, LiveJobs(), mode="exact", policy="passes")
    scheduler.start()
    scheduler._thread.join(timeout=60)
    assert not scheduler._thread.is_alive()
    scheduler.detach()
    status = scheduler.status()
    assert status.ended_because == "the policy failed 3 times in a row"
    assert status.fallbacks == 3
    assert "slots idle for" in str(status.last_fault)
