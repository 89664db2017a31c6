"""Order and limits on a real Spark, checked against its own event log."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.spark_exactness import Launch, check, logging_session, read_launches, run
from decima.spark.decision_log import LoggedPlan, read_decision_log


@pytest.mark.slow
@pytest.mark.real_spark
def test_no_launch_breaks_the_plan_in_force(tmp_path: Path) -> None:
    """Random plans that change all the time; and the check sees plans that were not kept."""
    log = tmp_path / "plans.jsonl"
    with logging_session(tmp_path) as spark:
        counters = run(spark, seed=3, jobs=6, log=log)
    assert counters["launches_over_limit"] == 0
    launches = read_launches(next(tmp_path.glob("local-*")))
    plans = read_decision_log(log).plans
    checked = check(launches, plans)
    assert checked.launches > 50
    assert (checked.over_limit, checked.out_of_order) == (0, 0)
    lower = [plan._replace(limits={job: n - 1 for job, n in plan.limits.items()}) for plan in plans]
    assert check(launches, lower).over_limit > 0
    backwards = [plan._replace(chosen=plan.chosen[::-1]) for plan in plans]
    assert check(launches, backwards).out_of_order > 0


def plan(applied_ms: int, chosen: tuple[int, ...], **limits: int) -> LoggedPlan:
    return LoggedPlan(1, 0, (applied_ms, applied_ms), 8, "test", (), chosen, limits)


def test_the_check_itself() -> None:
    """Two tasks of a job whose limit is 1; a stage that is passed over; a plan that changes."""
    plans = [plan(0, (1, 2), a=1, b=4)]
    first, second = Launch(10, 500, 1, "a"), Launch(20, 500, 1, "a")
    assert check([first, second], plans)[:3] == (2, 1, 0)
    assert check([first, Launch(600, 900, 1, "a")], plans)[:3] == (2, 0, 0)
    early, late = Launch(10, 300, 2, "b"), Launch(400, 900, 1, "a")
    assert check([early, late], plans)[:3] == (2, 0, 1)
    assert check([early, late], [plan(0, (2, 1), a=1, b=4)])[:3] == (2, 0, 0)
    changing = [plan(0, (1,), a=1), plan(0, (1,), a=2)._replace(applied_ms=(15, 25))]
    assert check([first, second], changing)[:2] == (1, 0)
