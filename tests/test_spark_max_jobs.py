"""A bound on jobs at once in a real Spark: whole jobs wait, none for ever, and failures lift it.

Most are slow: `pytest -m slow tests/test_spark_max_jobs.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import decima.spark
from decima.spark import Guard
from spark_sim import Action, Observation
from tests.spark_work import (
    Faulty,
    Hooks,
    most_at_once,
    sleep_tasks,
    spark_objects,
    together,
    until,
)

pytestmark = pytest.mark.real_spark

Spans = list[tuple[float, float]]


@pytest.fixture
def session(session_in: Callable[[str], Any]) -> Any:
    return session_in("FIFO")


def naps(session: Any, tasks: int, job: str | None = None) -> Spans:
    """Begin and end of each task of a query, in ms by the JVM's clock."""
    session.sparkContext.setLocalProperty("decima.job", job)
    session.sparkContext.setLocalProperty("spark.scheduler.pool", job)
    clock = "java_method('java.lang.System', 'currentTimeMillis')"
    nap = "java_method('java.lang.Thread', 'sleep', 200L)"
    columns = (f"{clock} AS begun", f"{nap} AS slept", f"{clock} AS ended")
    rows = session.range(0, tasks, 1, tasks).selectExpr(*columns).collect()
    return [(float(row.begun), float(row.ended)) for row in rows]


def most_jobs_at_once(spans_of_jobs: list[Spans]) -> int:
    return most_at_once([(min(spans)[0], max(end for _, end in spans)) for spans in spans_of_jobs])


def order_of(spans_of_jobs: list[Spans]) -> list[int]:
    """Jobs in the order in which they began, one at a time."""
    assert most_jobs_at_once(spans_of_jobs) == 1
    begins_ms = [min(begin for begin, _ in spans) for spans in spans_of_jobs]
    return sorted(range(len(begins_ms)), key=begins_ms.__getitem__)


def is_known(scheduler: Any, job: str) -> bool:
    """Wait until Spark has tasks of a job, started or not."""
    return until(lambda: f"job {job}" in scheduler.status().jvm["held"], 60)


def at_once(
    session: Any,
    scheduler: Any,
    *tasks: int,
    names: tuple[str, ...] = ("j0", "j1", "j2", "j3", "j4"),
) -> list[Spans]:
    """The tasks of jobs each of which is submitted once Spark knows the one before."""
    spans_of: list[Spans] = [[] for _ in tasks]

    def run(number: int) -> None:
        spans_of[number] = naps(session, tasks[number], names[number])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(tasks))]
    for number, thread in enumerate(threads):
        thread.start()
        assert is_known(scheduler, names[number])
    for thread in threads:
        thread.join(timeout=60)
    return spans_of


def test_at_most_two_jobs_run_and_the_others_wait_in_order(session: Any) -> None:
    """They overlap: each has three tasks a slot, and is submitted once the one before is known."""
    naps(session, 1)  # what is slow the first time
    with decima.spark.attach(session, policy="strict_fair", caps={"maxJobs": 2}) as scheduler:
        spans_of = at_once(session, scheduler, *[12] * 5)
        status = scheduler.status()
    assert most_jobs_at_once(spans_of) <= 2
    begins_ms = [min(begin for begin, _ in spans) for spans in spans_of]
    assert begins_ms == sorted(begins_ms)
    assert (status.jvm["faults"], status.fallbacks, status.ended_because) == (0, 0, None)


class FewestTasks:
    """The stage with the fewest tasks first; `choose` comes before a choice among waiting jobs."""

    name = "fewest tasks"

    def __init__(self, choose: Callable[[], None]) -> None:
        self.choose = choose

    def decide(self, seen: Observation) -> Action:
        if len(seen.active) > 1:  # only one runs at once: these wait
            self.choose()
        stages = seen.open_stages()
        return Action(int(stages[seen.stages["num_tasks"][stages].argmin()]), seen.num_executors)


def fail() -> None:
    raise RuntimeError("no idea")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("fifo", [0, 1, 2, 3]),
        ("tuned_srw", [0, 3, 2, 1]),
        (FewestTasks(lambda: None), [0, 3, 2, 1]),
        (FewestTasks(fail), [0, 1, 2, 3]),
        (FewestTasks(lambda: time.sleep(2.0)), [0, 1, 2, 3]),
    ],
    ids=["fifo", "tuned_srw", "python", "python that fails", "python that is late"],
)
def test_jobs_that_wait_come_in_the_policys_order(
    session: Any, policy: Any, order: list[int]
) -> None:
    """Each waits while the first runs, with fewer tasks than the one before."""
    with decima.spark.attach(session, policy=policy, caps={"maxJobs": 1}, ready_s=120) as scheduler:
        spans_of = at_once(session, scheduler, 64, 32, 24, 16)
        status = scheduler.status()
    assert order_of(spans_of) == order
    assert (status.jvm["faults"], status.ended_because) == (0, None)


@pytest.mark.slow
def test_a_query_of_several_spark_jobs_counts_once(session: Any) -> None:
    """Two queries with a broadcast and a sort, one at a time: none waits for its own parts."""
    small = session.range(0, 40, 1, 4).selectExpr("id AS key")
    large = session.range(0, 4_000, 1, 4).selectExpr("id % 40 AS key", "id")

    def query() -> None:
        assert large.join(small.hint("broadcast"), "key").orderBy("id").count() == 4_000
        assert len(large.join(small.hint("broadcast"), "key").orderBy("id").collect()) == 4_000

    with decima.spark.attach(session, policy="tuned_srw", caps={"maxJobs": 1}) as scheduler:
        together(query, query, query)
        assert scheduler.status().jvm["faults"] == 0


@pytest.mark.slow
def test_a_group_that_waits_for_another_job_is_no_deadlock(session: Any) -> None:
    """Between its Spark jobs it waits for the result of a job that waits for its place."""

    def leader() -> None:
        naps(session, 2, "leader")
        other = threading.Thread(target=lambda: naps(session, 2, "other"))
        other.start()
        other.join(timeout=30)
        assert not other.is_alive()
        naps(session, 2, "leader")

    with decima.spark.attach(session, policy="fifo", caps={"maxJobs": 1}):
        together(leader)


@pytest.mark.slow
def test_a_query_that_holds_no_task_gives_its_place_away(session: Any) -> None:
    """A job on the driver that never ends but has nothing to run: after `starve` others go on."""
    guard = Guard(starve_s=1.0)
    context = session.sparkContext
    numbers = context._jvm.java.util.ArrayList()
    numbers.add(1)
    with decima.spark.attach(session, policy="fifo", caps={"maxJobs": 1}, guard=guard):
        context.setLocalProperty("spark.sql.execution.id", "1000000")
        assert context._jsc.parallelize(numbers, 1).count() == 1  # no event ends the query
        context.setLocalProperty("spark.sql.execution.id", None)
        began_s = time.monotonic()
        naps(session, 2)
        assert time.monotonic() - began_s > 0.5


@pytest.mark.slow
def test_a_barrier_stage_waits_for_its_jobs_place(session: Any) -> None:
    context = session.sparkContext

    def barrier() -> None:
        time.sleep(0.5)  # the other job has its place by then
        rows = context.parallelize(range(4), 4).barrier().mapPartitions(lambda _: [time.time()])
        begins_ms.extend(1000 * begin_s for begin_s in rows.collect())

    begins_ms: list[float] = []
    first: list[Spans] = []
    with decima.spark.attach(session, policy="fifo", caps={"maxJobs": 1}):
        together(lambda: first.append(naps(session, 12)), barrier)
    assert min(begins_ms) >= max(end for _, end in first[0])


@pytest.mark.slow
def test_a_job_that_has_begun_is_not_held_up(session: Any) -> None:
    """It runs when the bound comes, and its later stages start beside another job."""
    job = threading.Thread(target=lambda: sleep_tasks(session, None, 16, 0.5))
    job.start()
    time.sleep(0.6)  # its first stage runs
    with decima.spark.attach(session, policy="fifo", caps={"maxJobs": 1}):
        job.join(timeout=60)
        assert not job.is_alive()
        naps(session, 2)


def test_a_policy_that_fails_lifts_the_bound(session: Any) -> None:
    """Spark's own order returns, and with it all jobs that wait; caps hold until `detach`."""
    before = spark_objects(session)
    scheduler = decima.spark.attach(
        session, Faulty(fail), guard=Guard(failures=1), caps={"maxJobs": 1, "maxSlotsPerJob": 2},
        ready_s=120,
    )  # fmt: skip
    try:
        sleep_tasks(session, "first", 8)
        assert until(lambda: scheduler.status().ended_because is not None)
        spans_of = at_once(session, scheduler, 24, 24, 24)
        assert most_jobs_at_once(spans_of) == 3
        for spans in spans_of:
            assert most_at_once(spans) == 2
        status = scheduler.status()
        assert (status.state, status.jvm["launches_over_cap"]) == ("caps only", 0)
        assert "maxJobs" not in str(status.reason)
    finally:
        scheduler.detach()
    assert spark_objects(session) == before


@pytest.mark.slow
def test_a_fault_in_what_admits_jobs_lifts_the_bound(session: Any, hooks: Hooks) -> None:
    """A job that waits starts beside the one that runs."""
    with decima.spark.attach(session, policy="fifo", caps={"maxJobs": 1}) as scheduler:
        spans_of: list[Spans] = []

        def first() -> None:
            spans_of.append(naps(session, 80, "first"))

        def second() -> None:
            assert is_known(scheduler, "first")
            spans_of.append(naps(session, 80, "second"))

        def fault() -> None:
            assert is_known(scheduler, "second")
            hooks.set("no admission")

        together(first, second, fault)
        assert scheduler.status().jvm["faults"] > 0
    assert most_jobs_at_once(spans_of) == 2


@pytest.mark.slow
def test_a_cancelled_job_that_waits_leaves_its_place(session: Any) -> None:
    context = session.sparkContext

    def first() -> None:
        naps(session, 80, "first")

    def second() -> None:
        assert is_known(scheduler, "first")
        context.setLocalProperty("spark.jobGroup.id", "second")
        with pytest.raises(Exception, match="cancel"):
            naps(session, 4, "second")

    def third() -> None:
        assert is_known(scheduler, "second")
        context.cancelJobGroup("second")
        naps(session, 4, "third")

    with decima.spark.attach(session, policy="fifo", caps={"maxJobs": 1}) as scheduler:
        together(first, second, third)
        assert scheduler.status().jvm["faults"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "order"), [("FIFO", [0, 1, 2, 3]), ("FAIR", [0, 2, 1, 3])])
def test_jobs_that_wait_come_in_sparks_order_where_it_is_in_force(
    session_in: Callable[[str], Any], mode: str, order: list[int]
) -> None:
    """Before the first verdict of `auto`. FAIR takes the first of the pools that run nothing."""
    session = session_in(mode)
    with decima.spark.attach(session, policy="auto", caps={"maxJobs": 1}) as scheduler:
        spans_of = at_once(session, scheduler, 64, 16, 16, 16, names=("b", "d", "c", "e"))
        assert scheduler.status().jvm["faults"] == 0
    assert order_of(spans_of) == order
