"""Plans for a live session inside the JVM: what a policy sees, what guards it, when one is due."""

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
    assert live["num_executors"] == simulated.num_executors
    assert live["on_offer"] == simulated.on_offer
    assert live["typical_ms"] == pytest.approx(simulated.typical_ms)
    assert float(live["mean_gap_ms"]) == pytest.approx(simulated.mean_gap_ms, abs=1.0)
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


@pytest.mark.parametrize("policy", ["strict_fair", "tuned_srw", "es_rule"])
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


def plans_for_idle_slots(
    live: Live, sets: list[Row], idle_slots: int, seconds: int = 27, moment_s: int = 3_600
) -> dict[str, Any]:
    """The last of the answers to a report each second that so many slots stand idle."""
    live.tell(report(*BEGUN, sets=sets))
    for second in range(seconds):
        idle_ms = 1_000 * (second % moment_s)
        told = report(time_ms=1_000 * second, sets=sets, idle_ms=idle_ms, idle_slots=idle_slots)
        answer = live.tell(told, "plan")
        plan = answer["plan"]
        assert (plan["by"] == "strict_fair") == (plan["fault"] is not None), second
    return answer


@pytest.mark.parametrize("answer", ["pass", "one"], ids=["only passes", "limits too low"])
def test_idle_slots_are_a_fault_of_the_policy(jvm: Talk, answer: str) -> None:
    """Each time the bound is over; rounds that leave slots idle do not make it well again."""
    plans = plans_for_idle_slots(Live(jvm, [answer], idle_s=5), WAITS, 8)
    assert plans["plan"]["fault"] == "8 slots idle for 26.0 s beside tasks that wait"
    assert (plans["failures"], plans["in_a_row"]) == (5, 5)


def test_slots_that_strict_fair_leaves_idle_are_no_fault(jvm: Talk) -> None:
    """One job runs its last tasks, and the other is at its share."""
    sets = [task_set(0, 4, 0, 4), task_set(1, 90, 0, 6, "spark 1")]
    for idle_slots, failures in ((2, 0), (3, 5)):
        live = Live(jvm, [[1, 6], "pass"] * 40, idle_s=5)
        assert plans_for_idle_slots(live, sets, idle_slots)["failures"] == failures


def test_a_moment_of_idleness_is_no_fault(jvm: Talk) -> None:
    """Policies may wait for something, as long as slots do not stand idle for the bound."""
    live = Live(jvm, ["pass"], idle_s=5)
    assert plans_for_idle_slots(live, WAITS, 8, seconds=20, moment_s=5)["failures"] == 0


def test_a_policy_that_only_passes_is_found_out(jvm: Talk) -> None:
    """What is due and the watch for idle slots together: each report calls for a plan, and strict
    fair steps in at each bound. Tasks start as soon as a plan lets them, and end at once.
    """
    live, left, since_ms, last = Live(jvm, ["pass"], idle_s=0.5), 300, 0, None
    live.tell(report(started(0, info(0, 1_000))))
    faults = []
    for time_ms in range(100, 2_500, 100):
        if last is not None and last["chosen"]:
            left, since_ms = left - SLOTS, time_ms
        idle_ms = time_ms - since_ms
        answer = live.tell(
            report(
                sets=[task_set(0, 1_000, 1_000 - left)], time_ms=time_ms, idle_ms=idle_ms,
                idle_slots=SLOTS if idle_ms else 0,
            ),
            "plan",
        )  # fmt: skip
        last = answer["plan"]
        assert answer["is_due"]
        assert answer["in_a_row"] == answer["failures"]
        faults += [time_ms] * (last["fault"] is not None)
    assert faults == [600, 1_300, 2_000]


# --- which reports call for a plan ---------------------------------------------------------------


def due(jvm: Talk, *sets: Row, at_ms: int = 0, plan: dict[str, Any] | None = None) -> bool:
    """Of the newest session."""
    answer = jvm.ask({"due": report(sets=[*sets], time_ms=at_ms), "plan": plan})
    return bool(answer)


def tasks(stage: int, waiting: int, running: int = 0, job: str | None = None) -> Row:
    return task_set(stage, waiting + running, 0, running, job or f"spark {stage}")


def plan_of(chosen: list[int], considered: list[int], **limits: int) -> dict[str, Any]:
    by_job = {name.replace("_", " "): limit for name, limit in limits.items()}
    return {"chosen": chosen, "considered": considered, "limits": by_job}


NO_PLAN = None


@pytest.mark.parametrize(
    ("sets", "in_force", "is_due"),
    [
        ([tasks(0, 0, SLOTS)], NO_PLAN, False),
        ([tasks(0, SLOTS)], NO_PLAN, False),
        ([tasks(0, SLOTS + 1)], NO_PLAN, True),
        ([tasks(0, 2, 4), tasks(1, 6)], NO_PLAN, False),
        ([tasks(0, 2, 4), tasks(1, 7)], NO_PLAN, True),
        ([tasks(0, 2)], plan_of([], [0]), True),
        ([tasks(0, 2)], plan_of([0], [0], spark_0=2), False),
        ([tasks(0, 2, 1)], plan_of([0], [0], spark_0=2), True),
        ([tasks(1, 2, 0, "spark 0")], plan_of([0], [0], spark_0=1), True),
        ([tasks(1, 2)], plan_of([0], [0], spark_0=1), False),
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
    jvm: Talk, sets: list[Row], in_force: dict[str, Any] | None, is_due: bool
) -> None:
    """As many idle slots as waiting tasks, and no plan that keeps them apart."""
    Live(jvm)
    assert due(jvm, *sets, plan=in_force) == is_due


def test_what_has_not_started_after_a_while_does(jvm: Talk) -> None:
    """Something that we do not know of holds it back: the policy is asked."""
    Live(jvm)
    assert not due(jvm, tasks(0, 2))
    assert not due(jvm, tasks(0, 2), at_ms=SETTLE_MS - 1)
    assert due(jvm, tasks(0, 2), at_ms=SETTLE_MS + 1)
    assert not due(jvm, tasks(0, 2), tasks(1, 2), at_ms=2_000), "another stage has come"


def test_a_full_cluster_is_planned_for_when_it_changes(jvm: Talk) -> None:
    """Not for each task that ends while slots are busy, but for each that leaves one idle."""
    Live(jvm)
    assert due(jvm, tasks(0, 9, SLOTS))
    assert not due(jvm, tasks(0, 5, SLOTS), at_ms=100)
    assert due(jvm, tasks(0, 5, SLOTS - 1), at_ms=200)
    assert due(jvm, tasks(0, 5, SLOTS), tasks(1, 1), at_ms=300)


def test_what_a_plan_keeps_from_starting_is_due_at_every_report(jvm: Talk) -> None:
    """However few tasks it is, and whatever else comes and goes: else nobody would find out."""
    Live(jvm)
    for step in range(20):
        others = [tasks(step, 0, 1)] if step % 3 else []
        at_ms = step * SETTLE_MS // 2
        is_due = due(jvm, tasks(0, 2), *others, at_ms=at_ms, plan=plan_of([], [0]))
        assert is_due, f"report {step}"
