"""Executors divided among applications, solved by hand: strict fair on eight executors."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decima
from decima.errors import PolicyError
from decima.spark.coordinator.messages import MessageError, read_registration, read_report
from decima.spark.coordinator.planning import Coordinator
from decima.spark.coordinator.settings import CoordinatorSettings
from decima.spark.settings import WEIGHTS, AttachError
from spark_sim import Action, Observation
from tests.applications import columns, coordinator, join, registered, registration, report


def two(policy: str = "strict_fair", **settings: object) -> Coordinator:
    """`a` and `b` on eight executors, which `a` got all as it came first."""
    made = coordinator(8, policy, **settings)
    for key in ("a", "b"):
        made.register(registered(key), 0, 0.0)
    return made


def test_the_first_application_keeps_the_executors_that_no_other_needs() -> None:
    """A cluster manager starts all that are free: they stay until there is work elsewhere."""
    made = two()
    assert made.plan(1.0).targets == {"a": 8, "b": 0}
    made.report("b", report(0, columns([8])), 2.0)
    assert made.plan(3.0).targets == {"a": 0, "b": 8}


@pytest.mark.parametrize(
    ("policy", "work_of_a", "work_of_b", "targets"),
    [
        pytest.param("strict_fair", columns([20]), columns([20]), (4, 4), id="equal shares"),
        # The floor of one holds under every policy.
        pytest.param(
            "fifo", columns([20]), columns([20], age_ms=1_500.0), (1, 7), id="oldest work first"
        ),
        # Each executor leaves when its task ends.
        pytest.param("strict_fair", columns([8], [8]), columns([20]), (4, 4), id="last tasks run"),
        # Twenty tasks of 0.2 s are two moves of 2 s; the floor is served for any work.
        pytest.param("strict_fair", None, columns([20], task_ms=200.0), (6, 2), id="two moves pay"),
        pytest.param("strict_fair", None, columns([20], task_ms=10.0), (7, 1), id="no move pays"),
    ],
)
def test_a_plan_for_two_applications(
    policy: str, work_of_a: Any, work_of_b: Any, targets: tuple[int, int]
) -> None:
    made = two(policy)
    made.report("a", report(8, work_of_a), 2_000.0)
    made.report("b", report(0, work_of_b), 2_000.0)
    assert made.plan(2_001.0).targets == dict(zip("ab", targets, strict=True))


def test_executors_stay_with_a_stage_that_has_more_tasks() -> None:
    """A stage that runs goes on, as in the simulator, and another application gets its floor."""
    made = two()
    made.report("a", report(8, columns([20], [8], task_ms=1_000.0)), 10.0)
    assert made.plan(11.0).targets == {"a": 8, "b": 0}
    made.report("b", report(0, columns([20])), 12.0)
    assert made.plan(13.0).targets == {"a": 7, "b": 1}


def test_a_long_stage_gives_executors_away_and_then_keeps_the_others() -> None:
    """Sixty tasks of 10 s are more than five moves of 2 s, and the next division is ten later."""
    made = two()
    made.register(registered("c"), 0, 0.0)
    made.report("a", report(8, columns([60], [8])), 10.0)
    made.report("b", report(0, columns([60])), 10.0)
    assert made.plan(11.0).targets == {"a": 4, "b": 4, "c": 0}
    for time_ms, expected in (
        (12.0, {"a": 3, "b": 4, "c": 1}),
        (20_012.0, {"a": 3, "b": 3, "c": 2}),
    ):
        for key in ("a", "b", "c"):
            granted = made.applications[key].granted
            made.report(key, report(granted, columns([60], [granted])), time_ms)
        assert made.plan(time_ms).targets == expected


@pytest.mark.parametrize("policy", ["strict_fair", "fifo", "tuned_srw", "es_rule", "decima"])
def test_the_division_of_a_load_is_that_of_a_coordinator_that_starts_now(policy: str) -> None:
    """Whatever divided before: `a` got all as it was alone, and `b` came during its long stage."""
    load = {
        "a": (3, columns([120], [48], [45], 1_500.0, age_ms=9_000.0)),
        "b": (1, columns([60], [3], [2], 1_500.0)),
    }

    def division(made: Coordinator, now_ms: float) -> dict[str, int]:
        for key, (held, stages) in load.items():
            made.applications[key].granted = held
            made.report(key, report(held, stages), now_ms)
        return made.plan(now_ms).targets

    before = coordinator(4, policy)
    for key in load:
        before.register(registered(key), 0, 0.0)
    before.report("a", report(4, columns([120], [4], task_ms=1_500.0)), 1.0)
    before.report("b", report(0, columns([60], task_ms=1_500.0)), 1.0)
    before.plan(2.0)
    divisions = [division(before, 30_000.0)]
    for order in (("a", "b"), ("b", "a")):
        again = coordinator(4, policy)
        for key in order:
            again.register(registered(key), load[key][0], 0.0)
        divisions.append(division(again, 1.0))
    assert divisions[1:] == divisions[:1] * 2
    if policy == "strict_fair":
        assert divisions[0] == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("settings", "groups", "targets"),
    [
        # Three to one of eight.
        ({"weights": {"queue:prod": 3.0}}, ("prod", "dev"), (6, 2)),
        # A cap is shared by the applications of its group.
        ({"caps": {"user:ann": 3}}, ("ann", "ann", "bob"), (2, 1, 3)),
        ({"caps": {"user": 3}}, ("ann", "ann", "bob"), (2, 1, 3)),
        ({"caps": {"queue": 3}}, ("ann", "ann", "bob"), (2, 1, 3)),
    ],
)
def test_weights_and_caps_of_groups(
    settings: dict[str, Any], groups: tuple[str, ...], targets: tuple[int, ...]
) -> None:
    made = coordinator(8, **settings)
    for key, group in zip("abc", groups, strict=False):
        join(made, key, columns([20]), user=group, queue=group)
    assert tuple(made.plan(11.0).targets.values()) == targets


def test_shortest_work_first_is_by_weight() -> None:
    """Twice the work at three times the weight goes first (Smith's rule)."""
    targets = []
    for weight in (1.0, 3.0):
        made = coordinator(8, "tuned_srw")
        join(made, "short", columns([20]))
        join(made, "long", columns([40]), weight=weight)
        targets.append(made.plan(11.0).targets)
    assert targets[0]["short"] > targets[0]["long"]
    assert targets[1]["long"] > targets[1]["short"]


@pytest.mark.parametrize(
    ("policy", "shares_of", "jobs_count"),
    [
        ("tuned_srw", None, True), ("tuned_srw", "applications", False),
        ("strict_fair", None, False), ("strict_fair", "jobs", True),
    ],
)  # fmt: skip
def test_an_application_weighs_as_much_as_its_unfinished_jobs(
    policy: str, shares_of: str | None, jobs_count: bool
) -> None:
    """Three jobs with twice the work of one: each of the three is shorter."""
    made = coordinator(8, policy, shares_of=shares_of)
    for key, jobs, tasks in (("one", 1, [20]), ("three", 3, [20, 10, 10])):
        join(made, key, columns(tasks, jobs=jobs))
    targets = made.plan(11.0).targets
    assert (targets["three"] > targets["one"]) == jobs_count


@pytest.mark.parametrize(
    ("leave_ms", "come_ms", "delay_ms"),
    [
        # Not before the cluster had room: an executor that leaves finishes its tasks first.
        ([5_000.0] * 8, [8_000.0] * 8, 3_000.0),
        # They take places in the order in which these became free: one that left just now has not
        # delayed the one that comes.
        ([1_000.0 * k for k in range(1, 9)], [6_000.0 + 1_000.0 * k for k in range(1, 9)], 6_000.0),
    ],
    ids=["at once", "one by one"],
)
def test_the_moving_delay_is_measured_from_request_to_registration(
    leave_ms: list[float], come_ms: list[float], delay_ms: float
) -> None:
    made = two(moving_delay_s=1.0)
    made.report("a", report(8), 0.0)
    made.report("b", report(0, columns([20])), 100.0)
    made.plan(100.0)
    for count, at_ms in enumerate(leave_ms, start=1):
        made.report("a", report(8 - count), at_ms)
    assert made.delay.ms == 1_000.0
    for count, at_ms in enumerate(come_ms, start=1):
        made.report("b", report(count, columns([20])), at_ms)
    assert (made.delay.ms, made.delay.samples) == (delay_ms, 8)


def test_a_driver_that_reports_more_executors_than_there_are_holds_nothing_up() -> None:
    """Such a count costs no more than the cluster's size, in time and in memory."""
    made = coordinator(8)
    tracemalloc.start()
    try:
        made.register(registered("a"), 2**31 - 1, 0.0)
        made.report("a", report(0), 1.0)
        made.report("a", report(2**31 - 1), 2.0)
        made.remove("a", 3.0)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 100_000
    assert made.delay.samples == 0


def test_more_applications_than_executors_take_turns() -> None:
    """The one served longest gives way to the one that has waited beyond the bound."""
    made = coordinator(1, wait_s=60.0)
    for key in ("a", "b", "c"):
        join(made, key, columns([20]))
    served = []
    for second in range(0, 240, 10):
        targets = made.plan(1_000.0 * second).targets
        (now,) = (key for key, target in targets.items() if target)
        for key in targets:
            running = [1] if key == now else []
            stages = columns([20], running, age_ms=1_000.0 * second)
            made.report(key, report(len(running), stages), 1_000.0 * second)
        served.append(now)
    assert served == ["a"] * 6 + ["b"] * 6 + ["c"] * 6 + ["a"] * 6


@pytest.mark.parametrize(("slots", "of_b"), [(8, 5), (6, 3)], ids=["same", "smaller"])
def test_applications_keep_what_they_hold_when_the_coordinator_starts_again(
    slots: int, of_b: int
) -> None:
    """A cluster that is smaller by then takes from the largest."""
    made = coordinator(slots)
    for key, held in (("a", 3), ("b", 5)):
        join(made, key, columns([20], [held], task_ms=1_000.0), held)
        made.report(key, report(held, columns([20], [held], task_ms=1_000.0)), 11.0)
    assert made.plan(12.0).targets == {"a": 3, "b": of_b}


def test_a_driver_that_is_back_keeps_what_it_holds_until_its_first_report() -> None:
    """Its work is not known yet; once it reports none, its executors are free."""
    made = coordinator(8)
    made.register(registered("a"), 3, 0.0)
    made.register(registered("b"), 5, 0.0)
    made.report("b", report(5, columns([60], [5])), 1.0)
    assert made.plan(2.0).targets == {"a": 3, "b": 5}
    made.report("a", report(3), 3.0)
    assert made.plan(4.0).targets == {"a": 0, "b": 8}


def test_executors_of_several_tasks_are_counted_whole() -> None:
    """Ten tasks need three executors of four."""
    made = coordinator(8)
    made.register(registered("a", tasks=4, most=2), 0, 0.0)
    join(made, "b", columns([10]), tasks=4)
    assert made.plan(2.0).targets == {"a": 2, "b": 6}
    made.report("a", report(2, columns([100])), 3.0)
    made.report("b", report(6, columns([10], [10])), 3.0)
    assert made.plan(4.0).targets == {"a": 2, "b": 6}


@pytest.mark.parametrize("policy", ["strict_fair", "fifo", "tuned_srw", "es_rule", "decima"])
def test_weights_and_work_within_their_bounds_can_be_planned(policy: str) -> None:
    """The lightest application beside the heaviest, with the most tasks and the most work."""
    least, most = WEIGHTS
    weights = {"user:low": least, "queue:low": least, "user:high": most, "queue:high": most}
    made = coordinator(8, policy, weights=weights)
    for key, weight in (("low", least), ("high", most), ("plain", 1.0)):
        made.register(registered(key, user=key, queue=key, weight=weight), 0, 0.0)
    for task_ms in (0.0, 1e-300, 1.0, 9e8):
        for key in made.applications:
            held = made.applications[key].granted
            made.report(key, report(held, columns([10_000_000, 1], [held], task_ms=task_ms)), 1.0)
        division = made.plan(2.0)
        assert division.fault is None
        assert sum(division.targets.values()) == 8


class Broken:
    """A policy that raises, or answers what the rules forbid."""

    name = "broken"

    def __init__(self, action: Action | None) -> None:
        self._action = action

    def decide(self, observation: Observation) -> Action:
        if self._action is None:
            raise RuntimeError("broken")
        return self._action


def unmade(_trace: object) -> Broken:
    raise RuntimeError("no such graph")


@pytest.mark.parametrize("action", [None, Action(7, 1), Action(0, 99), Action(0, 0), "unmade"])
def test_strict_fair_stands_in_for_a_policy_that_fails(action: Any) -> None:
    """Or that cannot be made for the graphs of now."""
    policy_for = unmade if action == "unmade" else lambda _trace: Broken(action)
    made = Coordinator(CoordinatorSettings(8), policy_for)
    join(made, "a", columns([20]))
    division = made.plan(2.0)
    assert (division.targets, division.by, made.failures) == ({"a": 8}, "strict_fair", 1)
    assert division.fault is not None
    assert ("no such graph" in division.fault) == (action == "unmade")


def test_an_application_keeps_its_executors_between_two_jobs_of_a_query() -> None:
    """With adaptive execution a shuffle ends a Spark job, and the next one follows."""
    made = two(idle_s=2.0)
    made.report("a", report(4, columns([20])), 0.0)
    made.report("b", report(4, columns([20])), 0.0)
    assert made.plan(1.0).targets == {"a": 4, "b": 4}
    made.report("a", report(4), 5_000.0)
    made.report("b", report(4, columns([20], [4])), 5_000.0)
    assert made.plan(5_001.0).targets == {"a": 4, "b": 4}
    made.report("a", report(4, columns([20])), 5_200.0)
    made.report("a", report(4), 9_000.0)
    assert made.plan(10_900.0).targets == {"a": 4, "b": 4}
    assert made.plan(11_001.0).targets == {"a": 0, "b": 8}


def test_executors_kept_between_jobs_count_under_caps() -> None:
    made = coordinator(8, caps={"user": 5}, idle_s=2.0)
    for key, user in (("a", "ann"), ("b", "ann"), ("c", "bob")):
        made.register(registered(key, user=user), 0, 0.0)
    made.report("a", report(4, columns([4])), 0.0)
    made.report("b", report(1, columns([20])), 0.0)
    assert made.plan(1.0).targets == {"a": 4, "b": 1, "c": 0}
    made.report("a", report(4), 100.0)
    made.report("c", report(0, columns([20])), 100.0)
    assert made.plan(101.0).targets == {"a": 4, "b": 1, "c": 3}
    assert made.plan(2_101.0).targets == {"a": 0, "b": 4, "c": 4}


def test_two_applications_of_one_name_and_id_are_two() -> None:
    made = coordinator(8)
    assert [made.register(registered("a"), 0, 0.0) for _ in range(3)] == ["a", "a #2", "a #3"]


@pytest.mark.parametrize("policy", ["strict_fair", "tuned_srw", "es_rule", "decima"])
def test_targets_never_exceed_the_cluster_and_starve_no_one(policy: str) -> None:
    """Random work and progress: whatever the policy, each with work holds one or more."""
    rng = np.random.default_rng(1)
    made = coordinator(12, policy, caps={"user:bob": 5}, idle_s=0.0)
    keys = [
        made.register(registered(f"a{n}", user=rng.choice(["ann", "bob"])), 0, 0.0)
        for n in range(5)
    ]
    tasks = {key: rng.integers(1, 9, 4).tolist() for key in keys}
    started = dict.fromkeys(keys, 0)
    for step in range(60):
        now_ms = 500.0 * step
        targets = made.plan(now_ms).targets
        assert sum(targets.values()) <= 12
        bobs = [key for key in keys if made.applications[key].registration.user == "bob"]
        assert sum(targets[key] for key in bobs) <= 5
        waiting = [key for key in keys if made.applications[key].waiting_tasks > 0]
        assert all(targets[key] >= 1 for key in waiting)
        for key in keys:
            started[key] = min(
                started[key] + int(rng.integers(0, 1 + targets[key])), sum(tasks[key])
            )
            left, launched = started[key], []
            for count in tasks[key]:
                launched.append(min(left, count))
                left -= launched[-1]
            is_over = started[key] == sum(tasks[key])
            stages = None if is_over else columns(tasks[key], launched, age_ms=now_ms)
            made.report(key, report(targets[key], stages), now_ms)
            if is_over:
                started[key] = 0
    assert made.failures == 0


def test_memory_does_not_grow_with_the_jobs_that_ended() -> None:
    """Five thousand jobs of ten applications that come and go."""
    made = coordinator(50)

    def serve(jobs: int, begin_ms: float) -> None:
        for number in range(jobs):
            now_ms = begin_ms + 100.0 * number
            key = made.register(registered(f"a{number % 10}"), 0, now_ms)
            made.report(key, report(0, columns([5, 5])), now_ms)
            made.report(key, report(3, columns([5, 5], [3])), now_ms + 10)
            if number % 50 == 0:
                made.plan(now_ms + 20)
            made.report(key, report(3), now_ms + 30)
            made.remove(key, now_ms + 40)

    serve(1_000, 0.0)
    tracemalloc.start()
    try:
        serve(2_000, 1e6)
        gc.collect()
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    # Of the package alone: threads that other tests left behind allocate, too.
    package = tracemalloc.Filter(True, str(Path(decima.__file__).parent / "*"))
    grown = sum(trace.size for trace in snapshot.filter_traces([package]).traces)
    # 8 bytes for each job would be 16,000.
    assert grown < 12_000
    assert made.applications == {}


@pytest.mark.parametrize(
    "change",
    [
        {"id": 3}, {"name": None}, {"user": []}, {"weight": 0}, {"weight": float("nan")},
        {"weight": "1"}, {"weight": 1e-320}, {"weight": 1e300}, {"most": -1}, {"tasks": 1.5},
    ],
)  # fmt: skip
def test_a_registration_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(MessageError):
        read_registration(registration("a", **change))


@pytest.mark.parametrize(
    "change",
    [
        {"num_tasks": []}, {"num_tasks": [1]}, {"num_tasks": [0, 5]}, {"num_tasks": "ab"},
        {"launched": [9, 0]}, {"finished": [1, 0]}, {"launched": [0.5, 0]}, {"runnable": [True]},
        {"mean_ms": [-1.0, 1.0]}, {"mean_ms": [None, 1.0]}, {"mean_ms": [1e300, 1.0]},
        {"mean_ms": [[1.0], [1.0]]}, {"num_tasks": [10_000_001, 1]}, {"num_tasks": [1e15, 1]},
        {"num_tasks": [10**7, 1], "mean_ms": [1e12, 1.0]}, {"children": [2]},
        {"first_child": [0, 2, 1]}, {"first_child": [1, 1, 1]},
        {"time_ms": -1.0}, {"time_ms": None}, {"children": [-1]},
        {"arrival_ms": []}, {"arrival_ms": [0.0, 1.0, 2.0]}, {"arrival_ms": 1},
    ],
)  # fmt: skip
def test_stages_that_make_no_sense_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(MessageError):
        read_report({"stages": {**columns([5, 5]), **change}, "registered": 0, "number": 0})


@pytest.mark.parametrize(
    "settings",
    [
        {"slots": 0}, {"slots": 1.5}, {"slots": 10**6}, {"policy": "none"}, {"wait_s": 0},
        {"idle_s": -1}, {"silence_s": -1}, {"caps": {"user": 0}}, {"caps": {"team:a": 1}},
        {"weights": {"user": 1}},
        {"weights": {"user:a": 0}}, {"weights": {"user:a": 1e-320}},
        {"weights": {"queue:a": 1e300}}, {"moving_delay_s": float("nan")}, {"shares_of": "users"},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises((AttachError, PolicyError)):
        CoordinatorSettings(**{"slots": 8, **settings})  # type: ignore[arg-type]
