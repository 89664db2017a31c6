"""Pools with weights and minShares while a policy is attached, solved by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jvm import Talk
from tests.live import Live, info, report, started, task_set

pytestmark = pytest.mark.real_spark

SLOTS = 8
PROD, ADHOC = ("prod", 3, 0), ("adhoc", 1, 0)
Pool = tuple[str, int, int]


def planned(
    jvm: Talk,
    *jobs: tuple[int, Pool | None],
    policy: str | list[Any] = "strict_fair",
    slots: int = SLOTS,
) -> dict[str, Any]:
    """The plan for jobs of one stage: its tasks, and the pool. Job 0 came first."""
    sets = [
        task_set(number, tasks, job=f"spark {number}", pool=pool)
        for number, (tasks, pool) in enumerate(jobs)
    ]
    return Live(jvm, policy).plan(report(sets=sets, slots=slots))


@pytest.mark.parametrize(
    ("jobs", "slots", "pools", "limits"),
    [
        # three to one, whatever the number of jobs in each
        (((20, PROD), (20, ADHOC), (20, ADHOC)), 8, {"prod": 6, "": 2}, (6, 1, 1)),
        # three to two, as Spark would share among a pool of weight 3 and two of weight 1
        (((20, PROD), (20, ("a", 1, 0)), (20, ("b", 1, 0))), 10, {"prod": 6, "": 4}, (6, 2, 2)),
        # five of eight, then weights: the other pool is behind until it has as many
        (((20, ("prod", 1, 5)), (20, ADHOC)), 8, {"prod": 5, "": 3}, (5, 3)),
        # minShares of six and three, where there are six slots for both
        (((20, ("a", 1, 6)), (20, ("b", 1, 3))), 6, {"a": 4, "b": 2}, (4, 2)),
        # 5.3, 2.7 and 4 of twelve by their weights, but a minShare of six
        (((20, ("a", 4, 6)), (20, ("b", 2, 3)), (20, ("c", 3, 0))), 12,
         {"a": 6, "b": 3, "c": 3}, (6, 3, 3)),
        # two tasks with six slots to spare: they may still grow to their share
        (((2, PROD), (20, ADHOC), (20, ADHOC)), 8, {"prod": 6, "": 6}, (6, 3, 3)),
    ],
    ids=["weights", "others", "min share", "min shares", "three", "idle"],
)  # fmt: skip
def test_pools_get_their_slots_and_the_policy_decides_inside(
    jvm: Talk,
    jobs: tuple[tuple[int, Pool], ...],
    slots: int,
    pools: dict[str, int],
    limits: tuple[int, ...],
) -> None:
    plan = planned(jvm, *jobs, slots=slots)
    assert plan["pools"] == pools
    assert plan["limits"] == {f"spark {job}": limit for job, limit in enumerate(limits)}
    assert sorted(plan["chosen"]) == [*range(len(jobs))]


def test_pools_with_sparks_defaults_change_nothing(jvm: Talk) -> None:
    """Such as one for each job: the policy decides among all jobs, as without pools."""
    without = planned(jvm, (20, None), (20, None), (3, None))
    assert "pools" not in without
    for pools in (("a", "b", "c"), ("default", "default", "default")):
        each = [(name, 1, 0) for name in pools]
        assert planned(jvm, (20, each[0]), (20, each[1]), (3, each[2])) == without


def test_slots_that_a_policy_leaves_idle_in_a_pool_go_to_others(jvm: Talk) -> None:
    """It gives one of six slots in the pool; the other pool takes the seven left."""
    plan = planned(jvm, (20, PROD), (20, ADHOC), policy=["one", "fifo"])
    assert plan["limits"] == {"spark 0": 1, "spark 1": 7}
    assert plan["pools"][""] == 7


def test_a_pool_without_a_slot_waits(jvm: Talk) -> None:
    plan = planned(jvm, (20, PROD), (20, ADHOC), slots=1)
    assert (plan["chosen"], plan["others"]) == ([1], [0])
    assert plan["pools"] == {"prod": 0, "": 1}


def test_a_job_that_starves_in_a_pool_without_a_slot_comes_first(jvm: Talk) -> None:
    """After a minute, in front of the pool that has the only slot."""
    live = Live(jvm, "fifo", starve_s=60)
    for second, chosen in ((0, [1]), (59, [1]), (61, [0, 1])):
        sets = [
            task_set(0, 20, job="spark 0", pool=PROD),
            task_set(1, 200, second, 1, job="spark 1", pool=ADHOC),
        ]
        answer = live.tell(report(sets=sets, slots=1, time_ms=1_000 * second), "plan")
        assert answer["plan"]["chosen"] == chosen
        assert answer["starved"] == (second > 60)


def test_a_policy_that_fails_in_one_pool_is_counted_once(jvm: Talk) -> None:
    sets = [
        task_set(0, 20, job="spark 0", pool=PROD), task_set(1, 20, job="spark 1", pool=ADHOC)
    ]  # fmt: skip
    answer = Live(jvm, ["raise"]).tell(report(sets=sets, slots=SLOTS), "plan")
    assert (answer["failures"], answer["in_a_row"]) == (1, 1)
    assert answer["plan"]["by"] == "strict_fair"
    assert answer["plan"]["limits"] == {"spark 0": 6, "spark 1": 2}


@pytest.mark.parametrize(
    ("waiting", "running", "policy", "first"),
    [
        # as many tasks left as by submission, or the fewest
        (((9, None), (7, None), (8, None)), None, "fifo", 1),
        (((9, None), (7, None), (8, None)), None, "strict_fair", 1),
        (((9, None), (7, None), (8, None)), None, "spark_fair", 1),
        (((9, None), (7, None), (8, None)), None, "tuned_srw", 2),
        (((9, None), (7, None), (8, None)), None, "es_rule", 2),
        # six tasks for weight three against three for one: the pool of weight three is due
        (((9, ADHOC), (7, PROD), (8, PROD)), ((6, PROD), (3, ADHOC)), "fifo", 2),
        (((9, PROD), (7, ADHOC), (8, PROD)), ((6, PROD), (3, ADHOC)), "tuned_srw", 3),
        # and with ten the other one
        (((9, PROD), (7, PROD), (8, ADHOC)), ((10, PROD), (3, ADHOC)), "tuned_srw", 3),
        # a minShare comes before all weights
        (((9, PROD), (8, ("etl", 1, 4))), ((1, PROD), (3, ("etl", 1, 4))), "fifo", 2),
        ((), None, "fifo", None),
    ],
)
def test_the_policy_chooses_among_waiting_jobs_of_the_pool_that_is_due(
    jvm: Talk,
    waiting: tuple[tuple[int, Pool | None], ...],
    running: tuple[tuple[int, Pool], ...] | None,
    policy: str,
    first: int | None,
) -> None:
    """Jobs that wait have numbers from 1 on; jobs that run take no part but fill their pools."""
    held = [
        task_set(10 + number, 40, 0, tasks, f"spark {10 + number}", pool=pool)
        for number, (tasks, pool) in enumerate(running or [(3, None)])
    ]
    sets = [
        task_set(number, tasks, job=f"spark {number}", pool=pool)
        for number, (tasks, pool) in enumerate(waiting, start=1)
    ]
    events = [started(number, info(number, 9), time_ms=number) for number in range(1, 4)]
    names = [one["job"] for one in sets]
    told = report(*events, sets=held, waiting_jobs=names, waiting_sets=sets, slots=16, time_ms=9)
    live = Live(jvm, policy)
    key = None if first is None else f"spark {first}"
    assert live.tell(told, "first")["first"] == key
    plan = live.plan(report(sets=held, waiting_jobs=names, slots=16, time_ms=10))
    assert set(plan["chosen"]) <= {10, 11}, "jobs that wait are in no plan"
