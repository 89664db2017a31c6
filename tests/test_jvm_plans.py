"""Plans for a live session inside the JVM: what a policy sees, what guards it, when one is due,
and what pools get.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from decima.registry import Heuristic
from spark_sim import PASS, Cluster, Observation, Protocol, Simulator, Status
from tests.jvm import Talk
from tests.live import SLOTS, Live, Row, SimulatedSession, info, job_done, report, started, task_set
from traces import Trace, load_trace, to_arrays

pytestmark = pytest.mark.real_spark

SETTLE_MS = 50


# --- the same observation ------------------------------------------------------------------------


def assert_same(live: dict[str, Any], simulated: Observation) -> None:
    """All that a policy may read of the jobs in the system, but for where rows are."""
    assert live["slots"] == simulated.num_executors
    assert live["on_offer"] == simulated.on_offer
    assert live["typical_ms"] == pytest.approx(simulated.typical_ms)
    gap_ms = np.inf if live["mean_gap_ms"] is None else live["mean_gap_ms"]
    assert gap_ms == pytest.approx(simulated.mean_gap_ms, abs=1.0)
    jobs = simulated.jobs[simulated.active]
    origin_ms = jobs["arrival_ms"][0]
    for name in ("time_ms", "last_arrival_ms"):
        assert live[name] == pytest.approx(getattr(simulated, name) - origin_ms, abs=1.0), name
    np.testing.assert_allclose(live["arrival_ms"], jobs["arrival_ms"] - origin_ms, atol=1.0)
    np.testing.assert_array_equal(np.diff(live["first_stage"]), jobs["num_stages"])
    for name in ("work_ms", "remaining_ms", "held", "local", "open_stages"):
        np.testing.assert_allclose(live[name], jobs[name], rtol=1e-9, atol=1e-3, err_msg=name)
    rows = np.array(live["spark_stage"])
    for name in ("num_tasks", "launched", "finished", "covered", "open", "runnable", "mean_ms",
                 "critical_path_ms"):  # fmt: skip
        expected = simulated.stages[rows][name]
        np.testing.assert_allclose(live[name], expected, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("policy", ["strict_fair", "es_rule"])
def test_observations_and_actions_are_those_of_the_simulator(jvm: Talk, policy: str) -> None:
    """One run of recorded jobs, told as Spark would: equal in each round, to the end."""
    trace = load_trace("tpch")
    rows = np.random.default_rng(3).choice(len(trace.jobs), 8, replace=False)
    jobs = [trace.jobs[row] for row in rows]
    some = Trace("some", tuple(jobs))
    cluster = Cluster(num_executors=SLOTS, protocol=Protocol.SESSION)
    order = np.arange(8, dtype=np.int32)
    arrival_ms = np.arange(0.0, 32_000.0, 4_000.0)
    simulator = Simulator(to_arrays(some), cluster, arrival_ms, order)
    # Two executions of one trace's job are known by one name, and told apart by their number.
    told = SimulatedSession(
        simulator, jobs, lambda number: {"spark.job.description": jobs[number].name}
    )
    live, rule = Live(jvm, policy, priors=some), Heuristic(policy)
    rounds = decisions = 0
    while simulator.status is Status.DECIDE:
        answer = live.tell(told.report(), "tables", "plan")
        assert_same(answer["tables"], simulator.observation())
        chosen, limits = [], {}
        number = simulator.observation().round_number
        while simulator.status is Status.DECIDE and simulator.observation().round_number == number:
            action = rule.decide(simulator.observation())
            simulator.step(action)
            decisions += 1
            if action != PASS:
                chosen.append(action.stage)
                limits[f"spark {simulator.state.stages[action.stage]['job']}"] = action.limit
        assert (answer["plan"]["chosen"], answer["plan"]["limits"]) == (chosen, limits)
        rounds += 1
    assert rounds > 50
    assert decisions > rounds


# --- plans ---------------------------------------------------------------------------------------

BEGUN = started(0, info(0, 9)), started(1, info(1, 9), time_ms=5)
WAITS = [task_set(0, 9, 0, 4), task_set(1, 9, job="spark 1")]
RUNS = [task_set(0, 9, 0, 4), task_set(1, 9, 0, 4, "spark 1")]
"""two jobs, of which the second waits; both run"""


def test_a_plan_orders_stages_and_limits_jobs(jvm: Talk) -> None:
    """In the order of the answers; what is not chosen is named too, so that it need not wait."""
    plan = Live(jvm, [[1, 5], "pass"]).plan(report(*BEGUN, sets=WAITS))
    assert plan == {
        "limits": {"spark 1": 5}, "chosen": [1], "others": [0], "by": "scripted", "fault": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("raise", "IllegalStateException: asked to fail"),
        ([99, 3], "stage 99 is not open"),
        ([0, 99], "limit 99: it must be above the 0 slots that the job holds, and at most 12"),
        (None, "NullPointerException"),
    ],
    ids=str,
)
def test_strict_fair_stands_in_for_a_policy_that_fails(
    jvm: Talk, answer: object, fault: str
) -> None:
    """For that round; the failure is counted and told."""
    plan = Live(jvm, [answer]).tell(report(*BEGUN, sets=WAITS), "plan")
    assert plan["plan"]["by"] == "strict_fair"
    assert plan["plan"]["limits"] == {"spark 0": 6, "spark 1": 6}
    assert fault in plan["plan"]["fault"]
    assert (plan["failures"], plan["in_a_row"]) == (1, 1)


def test_tasks_that_nobody_needs_hold_slots_and_nothing_else(jvm: Talk) -> None:
    """A cancelled job of 1000 tasks, five of which run on: its stage is not to be had."""
    live = Live(jvm)
    begun = started(0, info(0, 1000)), started(1, info(1, 20))
    other = task_set(1, 20, 0, 3, "spark 1")
    live.tell(report(*begun, sets=[task_set(0, 1000, 0, 5), other]))
    plan = live.plan(report(job_done(0), sets=[task_set(0, 1000, 0, 5, is_zombie=True), other]))
    assert (plan["chosen"], plan["limits"]) == ([1], {"spark 1": SLOTS - 5})


def test_where_no_slot_will_come_back_stages_wait_for_the_next_plan(jvm: Talk) -> None:
    """All are busy with last tasks; the plan names who waits, so that nobody starts unasked."""
    begun = started(0, info(0, SLOTS)), started(1, info(1, 4))
    sets = [task_set(0, SLOTS, 0, SLOTS), task_set(1, 4, job="spark 1")]
    plan = Live(jvm).plan(report(*begun, sets=sets))
    assert (plan["chosen"], plan["limits"], plan["others"]) == ([], {}, [1])


def test_nothing_to_decide(jvm: Talk) -> None:
    """No job, no slot, or no task to start: no plan."""
    full = report(started(0, info(0, 2)), sets=[task_set(0, 2, 0, 2)])
    for told in (report(), report(*BEGUN, sets=WAITS, slots=0), full):
        assert Live(jvm).tell(told, "plan")["plan"] is None


# --- no job starves ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "history",
    [
        # Beyond the bound it gets a slot first, even if the policy never schedules anything.
        [(0, WAITS, {}), (59, WAITS, {}), (61, WAITS, {"spark 1": 1})],
        # Two minutes without a plan, since nothing waited: only what waits after them counts.
        [(0, RUNS, {}), (120, WAITS, {}), (179, WAITS, {}), (181, WAITS, {"spark 1": 1})],
    ],
    ids=["waits", "ran meanwhile"],
)
def test_a_job_does_not_starve(jvm: Talk, history: list[tuple[int, Any, dict[str, int]]]) -> None:
    live = Live(jvm, ["pass"], starve_s=60)
    live.tell(report(*BEGUN, sets=history[0][1]))
    for second, sets, limits in history:
        answer = live.tell(report(time_ms=1_000 * second + 5, sets=sets), "plan")
        assert answer["plan"]["limits"] == limits, second
        assert answer["starved"] == len(limits)


# --- slots that stand idle -----------------------------------------------------------------------


LAST_TASKS = [task_set(0, 4, 0, 4), task_set(1, 90, 0, 6, "spark 1")]
"""one job runs its last tasks, and the other is at its share: strict fair leaves two slots idle"""


@pytest.mark.parametrize(
    ("script", "sets", "idle_slots", "idle_s", "failures"),
    [
        (["pass"], WAITS, 8, 27, 5),
        (["one"], WAITS, 8, 27, 5),
        ([[1, 6], "pass"] * 40, LAST_TASKS, 2, 27, 0),
        ([[1, 6], "pass"] * 40, LAST_TASKS, 3, 27, 5),
        (["pass"], WAITS, 8, 5, 0),
    ],
    ids=["only passes", "limits too low", "as strict fair", "more than strict fair", "a moment"],
)
def test_idle_slots_are_a_fault_of_the_policy(
    jvm: Talk, script: list[Any], sets: list[Row], idle_slots: int, idle_s: int, failures: int
) -> None:
    """Each time the bound of 5 s is over; rounds that leave slots idle do not make it well again.
    Slots are idle for less than `idle_s` at a time.
    """
    live = Live(jvm, script, idle_s=5)
    live.tell(report(*BEGUN, sets=sets))
    for second in range(27):
        idle_ms = 1_000 * (second % idle_s)
        told = report(time_ms=1_000 * second, sets=sets, idle_ms=idle_ms, idle_slots=idle_slots)
        answer = live.tell(told, "plan")
        assert (answer["plan"]["by"] == "strict_fair") == (answer["plan"]["fault"] is not None)
    assert answer["failures"] == failures
    if sets is WAITS and failures > 0:
        assert answer["plan"]["fault"] == "8 slots idle for 26.0 s beside tasks that wait"
        assert answer["in_a_row"] == failures


# --- which reports call for a plan ---------------------------------------------------------------


def tasks(stage: int, waiting: int, running: int = 0, job: str | None = None) -> Row:
    return task_set(stage, waiting + running, 0, running, job or f"spark {stage}")


def plan_of(chosen: list[int], considered: list[int], **limits: int) -> dict[str, Any]:
    by_job = {name.replace("_", " "): limit for name, limit in limits.items()}
    return {"chosen": chosen, "considered": considered, "limits": by_job}


IN_POOLS = [
    task_set(0, 4, running=3, job="spark 0", pool=("prod", 3, 0)),
    task_set(1, 2, running=1, job="spark 1", pool=("adhoc", 1, 0)),
]
OF_POOLS = plan_of([0, 1], [0, 1], spark_0=8, spark_1=8)
Reports = list[tuple[int, list[Row], dict[str, Any] | None, bool]]
"""time in ms, task sets, the plan in force, whether another plan is due"""
DUE: dict[str, Reports] = {
    "nothing waits": [(0, [tasks(0, 0, SLOTS)], None, False)],
    "all fit": [(0, [tasks(0, SLOTS)], None, False)],
    "one too many": [(0, [tasks(0, SLOTS + 1)], None, True)],
    "two jobs that fit": [(0, [tasks(0, 2, 4), tasks(1, 6)], None, False)],
    "two jobs that do not": [(0, [tasks(0, 2, 4), tasks(1, 7)], None, True)],
    "within its limit": [(0, [tasks(0, 2)], plan_of([0], [0], spark_0=2), False)],
    "at its limit": [(0, [tasks(0, 2, 1)], plan_of([0], [0], spark_0=2), True)],
    "a new stage of a job at its limit": [
        (0, [tasks(1, 2, 0, "spark 0")], plan_of([0], [0], spark_0=1), True)
    ],
    "another job than the plan's": [(0, [tasks(1, 2)], plan_of([0], [0], spark_0=1), False)],
    "within the limit of its pool": [
        (0, IN_POOLS, OF_POOLS | {"pools": {"prod": 4, "": 4}}, False)
    ],
    "at the limit of its pool": [(0, IN_POOLS, OF_POOLS | {"pools": {"prod": 3, "": 4}}, True)],
    # Something unknown holds it back: the policy is asked.
    "what has not started after a while": [
        (0, [tasks(0, 2)], None, False),
        (SETTLE_MS - 1, [tasks(0, 2)], None, False),
        (SETTLE_MS + 1, [tasks(0, 2)], None, True),
        (2_000, [tasks(0, 2), tasks(1, 2)], None, False),
    ],
    # Not for each task that ends while slots are busy, but for each that leaves one idle.
    "a full cluster that changes": [
        (0, [tasks(0, 9, SLOTS)], None, True),
        (100, [tasks(0, 5, SLOTS)], None, False),
        (200, [tasks(0, 5, SLOTS - 1)], None, True),
        (300, [tasks(0, 5, SLOTS), tasks(1, 1)], None, True),
    ],
    # However few tasks, whatever else comes and goes: else nobody would find out.
    "held back by the plan": [
        (
            step * SETTLE_MS // 2,
            [tasks(0, 2), *([tasks(step, 0, 1)] if step % 3 else [])],
            plan_of([], [0]),
            True,
        )
        for step in range(20)
    ],
}


@pytest.mark.parametrize("reports", DUE.values(), ids=DUE)
def test_what_starts_by_itself_needs_no_plan(jvm: Talk, reports: Reports) -> None:
    """As many idle slots as waiting tasks, and no plan that keeps them apart."""
    Live(jvm)
    for at_ms, sets, in_force, is_due in reports:
        told = report(sets=sets, time_ms=at_ms)
        assert jvm.ask({"due": told, "plan": in_force}) == is_due, at_ms


# --- pools with weights and minShares, solved by hand ---------------------------------------------


EIGHT = 8
PROD, ADHOC = ("prod", 3, 0), ("adhoc", 1, 0)
Pool = tuple[str, int, int]


def planned(
    jvm: Talk,
    *jobs: tuple[int, Pool | None],
    policy: str | list[Any] = "strict_fair",
    slots: int = EIGHT,
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
    answer = Live(jvm, ["raise"]).tell(report(sets=sets, slots=EIGHT), "plan")
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
