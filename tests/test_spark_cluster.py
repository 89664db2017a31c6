"""Attached to a Spark of several processes: executors that die, stages that run again.

Slow (a minute): `pytest -m slow tests/test_spark_cluster.py`.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import decima.spark
from decima.spark.decision_log import read_decision_log
from tests.spark_commands import EXECUTOR, children
from tests.spark_work import assert_all_slots_are_free, local_spark, several, together, until

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]


def reads_outputs(log: Path) -> bool:
    """Whether a stage runs that reads what an earlier one of its job has written."""
    plans = read_decision_log(log).plans if log.exists() else ()
    first: dict[str, int] = {}
    for row in (row for plan in plans for row in plan.sets):
        first[row.job] = min(row.stage, first.get(row.job, row.stage))
    newest = plans[-1].sets if plans else ()
    return any(row.running > 0 and row.stage > first[row.job] for row in newest)


def test_an_executor_that_dies_takes_only_its_tasks_along(tmp_path: Path) -> None:
    """Its slots go, its outputs are made again by another attempt of their stage, all jobs end."""
    log = tmp_path / "decisions.jsonl"
    settings = {"spark_sql_adaptive_enabled": "false", "spark_executor_memory": "512m"}
    with local_spark("local-cluster[2,2,1024]", **settings) as spark:
        several(spark, 1, 4)  # what is slow the first time
        ended: list[str] = []

        def job(name: str) -> None:
            # The first stage's outputs lie on both executors when the second begins.
            spark.sparkContext.setLocalProperty("decima.job", name)
            nap = "java_method('java.lang.Thread', 'sleep', 700L)"
            made = spark.range(0, 8, 1, 8).selectExpr("id % 4 AS part").groupBy("part").count()
            rows = made.repartition(8, "part").selectExpr("part", f"{nap} AS slept")
            assert len(rows.groupBy("part").agg({"slept": "max"}).collect()) == 4
            ended.append(name)

        def kill() -> None:
            assert until(lambda: reads_outputs(log), 120)
            os.kill(children(os.getpid(), EXECUTOR)[0], signal.SIGKILL)

        with decima.spark.attach(
            spark, policy="strict_fair", mode="exact", decision_log=log
        ) as scheduler:
            together(kill, *(lambda n=n: job(f"j{n}") for n in range(3)))
            assert_all_slots_are_free(scheduler)
            status = scheduler.status()
        assert sorted(ended) == ["j0", "j1", "j2"]
        plans = read_decision_log(log).plans
        assert {plan.slots for plan in plans} >= {2, 4}
        assert any(task_set.attempt > 0 for plan in plans for task_set in plan.sets)
        assert status.jvm["launches_over_limit"] == 0
        assert (status.jvm["faults"], status.jvm["lapses"], status.fallbacks) == (0, 0, 0)
        assert status.ended_because is None
        began = time.monotonic()
    assert time.monotonic() - began < 15
