"""Soft mode on a real Spark: limits become shares of Spark's own FAIR pools."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import decima.spark
from decima.spark import AttachError
from spark_sim import Action, Observation
from tests.spark_work import Hooks, spark_objects, until

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]


@pytest.fixture
def session(session_in: Callable[[str], Any]) -> Any:
    """A local Spark with the FAIR scheduler."""
    return session_in("FAIR")


def sleep_tasks(spark: Any, job: str, tasks: int) -> None:
    spark.sparkContext.setLocalProperty("decima.job", job)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", job)
    nap = "java_method('java.lang.Thread', 'sleep', 200L)"
    spark.range(0, tasks, 1, tasks).selectExpr(f"{nap} AS slept").agg({"slept": "max"}).collect()


class LargeShare:
    """Six slots for the job that came first, two for the other."""

    name = "large share"

    def decide(self, seen: Observation) -> Action:
        stage = int(seen.open_stages()[0])
        first = len(seen.active) < 2 or seen.stages[stage]["job"] == 0
        return Action(stage, 6 if first else 2)


def test_shares_follow_the_plan_and_are_given_back(session: Any) -> None:
    """While both jobs have tasks to start, slots are split about as the policy says."""
    threads = [
        threading.Thread(target=sleep_tasks, args=(session, job, tasks), daemon=True)
        for job, tasks in (("one", 120), ("two", 60))
    ]
    shares: list[dict[str, int]] = []
    with decima.spark.attach(session, policy=LargeShare(), mode="soft") as scheduler:
        for thread, job in zip(threads, ("one", "two"), strict=True):
            thread.start()
            assert until(partial(has_pool, session, job))  # the first job is the older one
        end = time.monotonic() + 20
        while len(shares) < 10 and time.monotonic() < end:
            time.sleep(0.15)
            held = scheduler.status().held
            if set(held) == {"job one", "job two"}:
                shares.append(held)
        status = scheduler.status()
        assert pool_of(session, "one") == (6, 6)
    assert pool_of(session, "one") == (0, 1)
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert status.mode == "soft"
    assert (status.fallbacks, status.ended_because) == (0, None)
    late = shares[len(shares) // 2 :]
    assert late
    mean_one = sum(held["job one"] for held in late) / len(late)
    mean_two = sum(held["job two"] for held in late) / len(late)
    assert mean_one > mean_two + 1.5


def has_pool(spark: Any, name: str) -> bool:
    root = spark.sparkContext._jsc.sc().taskScheduler().rootPool()
    return root.getSchedulableByName(name) is not None


def pool_of(spark: Any, name: str) -> tuple[int, int]:
    root = spark.sparkContext._jsc.sc().taskScheduler().rootPool()
    pool = root.getSchedulableByName(name)
    return pool.minShare(), pool.weight()


def test_auto_falls_back_where_a_field_cannot_be_set(
    session: Any, hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    """It is found out before anything has changed; exact mode by name is refused there."""
    hooks.set("refuse")
    with decima.spark.attach(session, policy="strict_fair") as scheduler:
        assert scheduler.mode == "soft"
        sleep_tasks(session, "four", 24)
        assert scheduler.status().plans > 0
    assert any("final field schedulableBuilder" in message for message in caplog.messages)
    with pytest.raises(AttachError, match="final field"):
        decima.spark.attach(session, policy="strict_fair", mode="exact")


def test_soft_mode_needs_fair_pools(session_in: Callable[[str], Any]) -> None:
    """It is refused under FIFO, and leaves nothing behind: jobs run, another mode may attach."""
    fifo = session_in("FIFO")
    before = spark_objects(fifo)
    with pytest.raises(AttachError, match=r"spark\.scheduler\.mode=FAIR.*not FIFO"):
        decima.spark.attach(fifo, policy="strict_fair", mode="soft")
    assert spark_objects(fifo) == before
    with decima.spark.attach(fifo, policy="strict_fair", mode="shadow") as scheduler:
        sleep_tasks(fifo, "four", 4)
        assert scheduler.status().ended_because is None
