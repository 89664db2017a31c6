"""Whatever of ours fails, is slow or is killed: on a real Spark, all jobs finish without it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import decima.spark
from decima.spark import Guard
from decima.spark.decision_log import read_decision_log
from spark_sim import PASS, Action, Observation
from tests.commands import python
from tests.spark_work import (
    Faulty,
    Hooks,
    assert_all_slots_are_free,
    several,
    sleep_tasks,
    spark_objects,
    together,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]


@pytest.mark.parametrize(
    ("fail", "fault"),
    [
        (lambda: 1 // 0, "ZeroDivisionError"),
        # Far beyond the guard's 0.2 s.
        (lambda: time.sleep(3), "no answer within"),
        (lambda: Action(10_000, 1), "illegal action"),
        # Tasks wait beside idle slots.
        (lambda: PASS, "slots idle for"),
    ],
    ids=["raises", "hangs", "illegal", "passes"],
)
def test_jobs_finish_whatever_the_policy_does(
    session: Any, fail: Callable[[], Any], fault: str
) -> None:
    """Strict fair stands in; after a few failures in a row the scheduler lets go."""
    before = spark_objects(session)
    guard = Guard(decision_s=0.2, idle_s=0.4, failures=3)
    with decima.spark.attach(session, policy=Faulty(fail), guard=guard) as scheduler:
        end_s = time.monotonic() + 60.0
        while scheduler.is_attached and time.monotonic() < end_s:
            several(session, tasks=24)  # where it starts slowly, one mix is over before 3 failures
        several(session, tasks=24)
        status = scheduler.status()
        assert status.fallbacks >= 3
        assert fault in str(status.last_fault) or "busy" in str(status.last_fault)
        assert status.ended_because == "the policy failed 3 times in a row"
        assert status.jvm["lapses"] == 0
        assert not scheduler.is_attached
        assert spark_objects(session) == before


def test_limits_lapse_when_the_planner_falls_silent(session: Any, hooks: Hooks) -> None:
    """Slots stand idle under its last plan, then its thread hangs: Spark's own order returns."""
    guard = Guard(idle_s=60)
    scheduler = decima.spark.attach(session, policy=Faulty(lambda: PASS), lapse_s=0.5, guard=guard)
    jobs = threading.Thread(target=several, args=(session, 2, 8), daemon=True)
    jobs.start()
    assert until(lambda: scheduler.status().plans > 0)
    time.sleep(1.0)  # twice the time after which limits lapse
    assert jobs.is_alive(), "nothing may start under a plan that chooses nothing"
    assert scheduler.status().jvm["lapses"] == 0, "a living planner's plan is kept"
    hooks.set("sleep 10000")  # longer than all that follows
    jobs.join(timeout=20)
    counters = scheduler.status().jvm
    scheduler.detach()
    assert not jobs.is_alive()
    assert counters["lapses"] == 1


def test_limits_do_not_lapse_while_every_slot_is_busy(session: Any, hooks: Hooks) -> None:
    """The job is refused a ninth slot of eight; no slot stands idle for that."""
    with decima.spark.attach(session, policy=AtMost(8), lapse_s=0.3) as scheduler:
        jobs = threading.Thread(target=sleep_tasks, args=(session, "busy", 12, 2.0), daemon=True)
        jobs.start()
        assert until(lambda: sum(scheduler.status().jvm["held"].values()) == 8)
        hooks.set("sleep 1500")
        time.sleep(0.8)  # more than twice the time after which limits lapse
        counters = scheduler.status().jvm
        hooks.clear()
    assert (counters["lapses"], counters["launches_over_limit"]) == (0, 0)
    jobs.join(timeout=30)
    assert not jobs.is_alive()


def test_a_planner_that_stays_silent_is_let_go_of(session: Any, hooks: Hooks) -> None:
    """After thirty times `lapse_s` Spark gets its own objects back, and the status says so."""
    before = spark_objects(session)
    with decima.spark.attach(session, policy="strict_fair", lapse_s=0.1) as scheduler:
        assert spark_objects(session) != before
        hooks.set("sleep 6000")
        assert until(lambda: spark_objects(session) == before)
        assert (scheduler.status().jvm["abandoned"], scheduler.is_attached) == (1, False)
        several(session, jobs=1)
        assert until(lambda: scheduler.status().ended_because is not None)
    assert "without a heartbeat" in str(scheduler.status().ended_because)


def test_a_full_disk_ends_the_log_and_nothing_else(session: Any) -> None:
    """Every write to that file fails as on a full disk. A session lives for weeks: nothing is kept
    of the task sets and jobs that have ended.
    """
    with decima.spark.attach(session, policy="strict_fair", decision_log="/dev/full") as scheduler:
        several(session, jobs=4, tasks=8)
        assert until(lambda: scheduler.status().jvm["task_sets"] == 0, 10)
        status = scheduler.status()
    assert status.plans > 0
    assert (status.jvm["held"], status.ended_because) == ({}, None)


def test_jobs_that_are_cancelled_or_fail_free_their_slots(session: Any) -> None:
    """Their threads get Spark's error (in local mode a task has one attempt); the others go on."""
    context, ended = session.sparkContext, threading.Event()

    def cancelled() -> None:
        context.setJobGroup("away", "to be cancelled", interruptOnCancel=True)
        with pytest.raises(Exception, match="cancel"):
            sleep_tasks(session, "away", 400, 0.2)
        ended.set()

    def cancel() -> None:
        while not ended.wait(timeout=0.5):  # on a busy machine the job may not have begun
            context.cancelJobGroup("away")

    def fails() -> None:
        with pytest.raises(Exception, match="ZeroDivisionError"):
            context.parallelize(range(8), 8).map(lambda number: 1 // (number - 5)).count()

    with decima.spark.attach(session, policy="strict_fair") as scheduler:
        together(cancelled, cancel, fails, lambda: sleep_tasks(session, "stays", 20))
        assert_all_slots_are_free(scheduler)


# --- processes and queues ------------------------------------------------------------------------


def test_our_thread_fails(session: Any, hooks: Hooks) -> None:
    """A fault of ours, not of the policy: we let go, say why, and Spark goes on."""
    before = spark_objects(session)
    hooks.set("fail")
    with decima.spark.attach(session, policy="strict_fair") as scheduler:
        several(session, jobs=2, tasks=8)
        assert spark_objects(session) == before
        status = scheduler.status()
    assert status.ended_because == "a fault of ours"
    assert not status.is_attached


def test_our_classes_fail_inside_spark(session: Any, hooks: Hooks) -> None:
    """Their plans are broken: each of their calls fails, is counted, and does what Spark would."""
    hooks.set("broken")
    with decima.spark.attach(session, policy="strict_fair") as scheduler:
        several(session, jobs=3, tasks=24)
        status = scheduler.status()
    assert status.plans > 0
    assert status.jvm["faults"] > 0


def test_a_slow_planner_holds_no_job_up(session: Any, hooks: Hooks) -> None:
    """Half a second for each plan: stages wait for their first decision no longer than `hold_s`."""
    hooks.set("slow 500")
    with decima.spark.attach(session, policy="strict_fair", hold_s=0.1) as scheduler:
        several(session, jobs=3, tasks=8)
        counters = scheduler.status().jvm
    assert counters["expired_holds"] > 0
    assert counters["faults"] == 0


def test_a_full_queue_drops_events_and_no_job(session: Any, hooks: Hooks) -> None:
    """One event fits: the rest is counted, and counts of tasks still come from the scheduler."""
    hooks.set("1", "decima.test.capacity")
    hooks.set("sleep 300")
    with decima.spark.attach(session, policy="tuned_srw") as scheduler:
        several(session, jobs=4, tasks=8)
        time.sleep(0.5)  # longer than the planner sleeps: a report has come
        status = scheduler.status()
    assert status.dropped_events > 0
    assert (status.fallbacks, status.ended_because) == (0, None)
    assert status.jvm["launches_over_limit"] == 0


# --- what lasts ----------------------------------------------------------------------------------


class AtMost:
    """So many slots for each job, the oldest first."""

    name = "at most"

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def decide(self, seen: Observation) -> Action:
        stage = int(seen.open_stages()[0])
        limits = seen.legal_limits(stage)
        return Action(stage, max(limits[0], min(self.limit, limits[-1])))


def test_a_cancelled_job_whose_tasks_run_on_gets_nothing_more(session: Any, tmp_path: Path) -> None:
    """Its tasks cannot be interrupted, so they hold slots; no plan gives it another one."""
    context, log = session.sparkContext, tmp_path / "log.jsonl"

    def cancelled() -> None:
        context.setJobGroup("away", "to be cancelled", interruptOnCancel=False)
        with pytest.raises(Exception, match="cancel"):
            sleep_tasks(session, "away", 100, 3.0)

    def cancel_and_go_on() -> None:
        until(lambda: scheduler.status().held.get("job away", 0) >= 6)
        context.cancelJobGroup("away")
        sleep_tasks(session, "next", 24, 0.1)

    guard = Guard(idle_s=60)
    with decima.spark.attach(
        session, AtMost(6), decision_log=log, guard=guard, hold_s=30.0
    ) as scheduler:
        together(cancelled, cancel_and_go_on)
    after = [
        (plan.chosen, row.stage)
        for plan in read_decision_log(log).plans
        for row in plan.sets
        if row.is_zombie and row.running > 0
    ]
    assert after, "no plan was made while its tasks ran on"
    assert all(stage not in chosen for chosen, stage in after)


def test_limits_hold_for_any_name(session: Any, tmp_path: Path) -> None:
    """Whatever the job is called, and whatever the driver's character set is."""
    log = tmp_path / "log.jsonl"
    policy = Faulty(lambda: Action(0, 1))
    guard = Guard(failures=1_000)
    # As long a hold as is needed for the first plan to come before anything starts.
    with decima.spark.attach(
        session, policy, guard=guard, decision_log=log, hold_s=30.0
    ) as scheduler:
        sleep_tasks(session, "décompte; 3,5 = 100 %", 10)
        counters = scheduler.status().jvm
    plans = read_decision_log(log).plans
    assert any("job décompte; 3,5 = 100 %" in plan.limits for plan in plans)
    running = {row.running for plan in plans for row in plan.sets if row.num_tasks == 10}
    assert max(running) == 1
    assert counters["launches_over_limit"] == 0


def test_a_policy_that_hangs_does_not_keep_python_alive(tmp_path: Path) -> None:
    """A thread that waits for ever ends with the driver."""
    code = """
import time
from decima.spark.worker import Worker

worker = Worker()
future = worker.submit(lambda: time.sleep(3600))
time.sleep(0.2)
worker.close()
print("ends", future.done())
"""
    began = time.monotonic()
    output = python("-c", code)
    assert output.split() == ["ends", "False"]
    assert time.monotonic() - began < 30
