"""Which reports call for a plan: what starts by itself needs none."""

from __future__ import annotations

import pytest

from decima.spark.due import SETTLE_S, Due
from decima.spark.planning import Plan
from decima.spark.reports import SessionReport, TaskSet

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
