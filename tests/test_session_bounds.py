"""Caps of slots and bounds on jobs in a shared session, against examples made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from decima import Heuristic
from decima.evaluation.runner import play
from decima.learned import play_in_lockstep
from decima.policies import policy_named
from decima.registry import HEURISTICS
from decima.whatif.replay.recording import POOLS
from decima.whatif.replay.spark_order import SparkJobs, play_spark
from spark_sim import (
    PASS,
    Action,
    Cluster,
    Conditions,
    IllegalActionError,
    Observation,
    Protocol,
    SimulationError,
    Simulator,
    Status,
)
from spark_sim.env import SparkEnv
from spark_sim.metrics import measure
from spark_sim.vector import Run, VectorSimulator
from traces import Arrivals, Job, Stage, Trace, to_arrays
from traces.numbers import Float64

ARRIVAL_MS = np.array([0.0, 100.0, 200.0, 300.0])
ROWS = np.arange(4, dtype=np.int32)


def four_jobs(tasks: Sequence[int] = (4, 4, 4, 4)) -> Trace:
    """So many tasks of a second in each job."""
    jobs = (Job(f"job {row}", (Stage.fixed("s", n, 1000.0, ()),)) for row, n in enumerate(tasks))
    return Trace("made", tuple(jobs))


def bounded(max_jobs: int | None, slots: int = 4) -> Cluster:
    return Cluster(num_executors=slots, protocol=Protocol.SESSION, max_jobs=max_jobs)


def session(
    trace: Trace,
    slots: int = 4,
    *,
    max_jobs: int | None = None,
    conditions: Conditions | None = None,
    time_limit_ms: float | None = None,
) -> Simulator:
    cluster = replace(bounded(max_jobs, slots), time_limit_ms=time_limit_ms)
    arrays, count = to_arrays(trace), len(trace.jobs)
    return Simulator(
        arrays, cluster, ARRIVAL_MS[:count], ROWS[:count], timeline=True, conditions=conditions
    )


def capped(slots: int, of_jobs: tuple[int, ...] = (0, 0, -1, -1)) -> Conditions:
    """One cap for some of the jobs; -1: none."""
    return Conditions(cap=np.array(of_jobs), cap_slots=np.array([slots]))


def jct_s(simulator: Simulator, policy: str) -> Float64:
    if policy in ("spark's fifo", "spark's fair"):
        jobs = [SparkJobs(np.zeros(1, np.int64), np.zeros(1, np.int64), str(row)) for row in ROWS]
        play_spark(simulator, "fifo" if policy == "spark's fifo" else "spark_fair", jobs)
    else:
        play(simulator, policy_named(policy, simulator.state.trace))
    return measure(simulator.state).jct_s


def most_at_once(simulator: Simulator, rows: tuple[int, ...]) -> int:
    """The most tasks of some jobs that run at the same time."""
    tasks = simulator.timeline()
    mine = tasks[np.isin(tasks["job"], rows)]
    return max(
        int(((mine["start_ms"] <= at) & (mine["finish_ms"] > at)).sum()) for at in mine["start_ms"]
    )


@pytest.mark.parametrize(
    ("policy", "max_jobs", "expected_s"),
    [
        ("spark's fifo", 1, [1.0, 1.9, 2.8, 3.7]),
        ("spark's fair", 1, [1.0, 1.9, 2.8, 3.7]),
        # The second takes the four slots at 1 s, the third from 2 s on, with the second gone.
        ("spark's fair", 2, [1.0, 2.9, 2.8, 3.7]),
        ("strict_fair", 1, [1.0, 1.9, 2.8, 3.7]),
        # At 1 s the second and the third get two slots each; the second ends at 3 s with them.
        ("strict_fair", 2, [1.0, 2.9, 2.8, 3.7]),
        ("es_rule", 1, [1.0, 1.9, 2.8, 3.7]),
    ],
)
def test_a_job_beyond_the_bound_waits_for_another_ones_end(
    policy: str, max_jobs: int, expected_s: list[float]
) -> None:
    assert jct_s(session(four_jobs(), max_jobs=max_jobs), policy) == pytest.approx(expected_s)


def four_sizes() -> Trace:
    """Jobs that take one, three, two and one second of all four slots."""
    return four_jobs((4, 12, 8, 4))


FIRST_SUBMITTED_S = [1.0, 3.9, 5.8, 6.7]
SHORTEST_S = [1.0, 6.9, 3.8, 1.7]


@pytest.mark.parametrize(
    ("policy", "expected_s"),
    [
        ("fifo", FIRST_SUBMITTED_S),
        ("strict_fair", FIRST_SUBMITTED_S),
        ("spark's fifo", FIRST_SUBMITTED_S),
        ("tuned_srw", SHORTEST_S),
        ("sjf_cp", SHORTEST_S),
        ("es_rule", SHORTEST_S),
        ("decima", SHORTEST_S),
    ],
)
def test_the_job_that_the_policy_would_serve_first_gets_the_free_place(
    policy: str, expected_s: list[float]
) -> None:
    assert jct_s(session(four_sizes(), max_jobs=1), policy) == pytest.approx(expected_s)


def test_a_learned_policy_admits_the_same_jobs_in_lockstep() -> None:
    """A plan of a round about waiting jobs ends with its first choice."""
    arrays, cluster = to_arrays(four_sizes()), bounded(1)
    played = play_in_lockstep("decima", arrays, cluster, [Run(ARRIVAL_MS, ROWS)] * 2, [0, 0])
    for state in played.states:
        assert measure(state).jct_s == pytest.approx(SHORTEST_S)


def test_fifo_is_bit_identical_to_the_order_of_submission() -> None:
    """Asked or not, with jobs of several stages, clients that wait, and slots left over."""
    rng = np.random.default_rng(5)
    jobs = (
        Job(
            f"job {row}",
            tuple(
                Stage.fixed(str(s), int(rng.integers(1, 9)), float(rng.integers(1, 3000)), parents)
                for s, parents in enumerate(((), (), (0, 1)))
            ),
        )
        for row in range(60)
    )
    arrays = to_arrays(Trace("made", tuple(jobs)))
    rows = np.arange(60, dtype=np.int32)
    arrival_ms = np.sort(rng.integers(0, 40_000, 60)).astype(np.float64)
    follows = np.where(rows % 4 == 3, rows - 2, -1)
    conditions = Conditions(follows=follows, lag_ms=np.full(60, 500.0))
    for max_jobs in (1, 3):
        runs = []
        for is_asked in (True, False):
            cluster = replace(bounded(max_jobs), ask_admission=is_asked)
            simulator = Simulator(arrays, cluster, arrival_ms, rows, conditions=conditions)
            play(simulator, Heuristic("fifo"))
            runs.append(measure(simulator.state))
        asked, unasked = runs
        assert asked.jct_s.tobytes() == unasked.jct_s.tobytes()
        assert asked.decisions == unasked.decisions
        assert asked.mean_jobs_in_system == unasked.mean_jobs_in_system


def test_a_round_about_waiting_jobs_shows_them_alone() -> None:
    """Nothing that they hold or that others hold is in sight, and afterwards all is as before."""
    simulator = session(four_sizes(), max_jobs=2)
    # The first two arrive and take all slots; the first ends at 1 s.
    while 0 in simulator.observation().active:
        simulator.step(Action(int(simulator.observation().open_stages()[0]), 4))
    seen = simulator.observation()
    assert (seen.active.tolist(), seen.num_jobs, seen.on_offer, seen.local) == ([2, 3], 2, 4, 0)
    assert seen.open_stages().tolist() == [2, 3]
    assert seen.jobs["held"][seen.active].tolist() == [0, 0]
    with pytest.raises(IllegalActionError, match="stage 1 may not be chosen now"):
        simulator.step(Action(1, 4))
    simulator.step(Action(3, 1))
    seen = simulator.observation()
    assert (seen.time_ms, seen.active.tolist(), seen.open_stages().tolist()) == (
        1e3,
        [1, 3],
        [1, 3],
    )
    assert simulator.state.stages["open"].tolist() == [0, 1, 0, 1]
    assert simulator.state.stages["runnable"].tolist() == [1, 1, 0, 1]


def test_a_job_that_overtook_is_observed_behind_those_submitted_before() -> None:
    """The fourth job enters before the third; then both run, by submission. One that passes admits
    the first submitted.
    """
    simulator = session(four_sizes(), max_jobs=2)
    orders = set()

    class Shortest:
        name = "shortest"

        def decide(self, seen: Observation) -> Action:
            orders.add(tuple(seen.active.tolist()))
            stages = seen.open_stages()
            return Action(int(stages[seen.stages["num_tasks"][stages].argmin()]), 4)

    play(simulator, Shortest())
    assert orders == {(0,), (0, 1), (2, 3), (1, 3), (1, 2), (1,)}

    simulator = session(four_sizes(), max_jobs=1)
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        is_waiting = bool((seen.jobs["active"][seen.active] == 0).all())
        simulator.step(PASS if is_waiting else Action(int(seen.open_stages()[-1]), 4))
    assert measure(simulator.state).jct_s == pytest.approx(FIRST_SUBMITTED_S)


def test_sparks_fair_admits_the_job_of_the_pool_that_is_due() -> None:
    """Of the pools of jobs that wait: none runs a task, so the first by name; `a` runs some."""
    simulator = session(four_sizes(), max_jobs=2)
    jobs = [
        SparkJobs(np.zeros(1, np.int64), np.zeros(1, np.int64), pool)
        for pool in ("b", "a", "a", "c")
    ]
    play_spark(simulator, POOLS, jobs)
    tasks = simulator.timeline()
    first_ms = [tasks["start_ms"][tasks["job"] == row].min() for row in ROWS]
    assert first_ms[3] < first_ms[2]


def test_an_environment_lets_jobs_enter_in_the_order_of_submission() -> None:
    def arrivals(_trace: Trace, _rng: np.random.Generator) -> Arrivals:
        return Arrivals(ARRIVAL_MS, ROWS)

    env = SparkEnv(four_sizes(), bounded(1), arrivals)
    seen, _ = env.reset(seed=0)
    is_over, ended = False, []
    while not is_over:
        action = np.array([int(np.flatnonzero(seen["action_mask"])[0]), 3])
        seen, _, terminated, truncated, info = env.step(action)
        is_over = terminated or truncated
        ended += [row for row, _ in info["completed"]]
    assert ended == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("policy", "slots", "expected_s"),
    [
        # One slot for both: the first ends at 4 s, the second at 8 s; the third has three slots
        # at 0.2 s and the fourth one from 1.2 s on.
        ("spark's fifo", 1, [4.0, 7.9, 2.0, 2.9]),
        ("spark's fifo", 2, [2.0, 3.9, 2.0, 3.9]),
        ("fifo", 1, [4.0, 7.9, 2.0, 2.9]),
        ("tuned_srw", 2, [2.0, 3.9, 2.0, 3.9]),
    ],
)
def test_jobs_under_a_cap_share_it_and_others_have_the_rest(
    policy: str, slots: int, expected_s: list[float]
) -> None:
    simulator = session(four_jobs(), conditions=capped(slots))
    assert jct_s(simulator, policy) == pytest.approx(expected_s)
    assert most_at_once(simulator, (0, 1)) == slots
    assert simulator.state.caps["held"].tolist() == [0]


@pytest.mark.parametrize("policy", ["spark's fifo", "spark's fair", *HEURISTICS])
def test_a_cap_holds_under_every_policy(policy: str) -> None:
    """Stages that follow each other, and no slot is left idle that a job may use."""
    jobs = (
        Job(f"job {row}", (Stage.fixed("a", 5, 700.0, ()), Stage.fixed("b", 3, 400.0, (0,))))
        for row in range(4)
    )
    simulator = session(Trace("made", tuple(jobs)), conditions=capped(2), max_jobs=3)
    if policy.startswith("spark's"):
        pairs = [SparkJobs(np.zeros(2, np.int64), np.arange(2), str(row)) for row in ROWS]
        play_spark(simulator, "fifo" if policy == "spark's fifo" else "spark_fair", pairs)
    else:
        play(simulator, Heuristic(policy, trace=simulator.state.trace))
    assert most_at_once(simulator, (0, 1)) == 2
    assert most_at_once(simulator, (2, 3)) > 2
    assert not np.isnan(simulator.completion_ms()).any()


@pytest.mark.parametrize("policy", ["spark's fifo", "spark's fair", "fifo", "es_rule"])
def test_bounds_that_nothing_meets_change_nothing(policy: str) -> None:
    """As many jobs, all slots, and numbers for which the simulator's tables have no room."""
    free_s = jct_s(session(four_jobs()), policy).tolist()
    for max_jobs in (4, 2**63 - 1):
        assert jct_s(session(four_jobs(), max_jobs=max_jobs), policy).tolist() == free_s
    for slots in (4, 2**31 + 2**30):
        assert jct_s(session(four_jobs(), conditions=capped(slots)), policy).tolist() == free_s


def test_tasks_of_several_slots_and_barrier_stages_count_their_slots() -> None:
    jobs = (
        Job("wide", (replace(Stage.fixed("w", 3, 1000.0), slots=2),)),
        Job("barrier", (replace(Stage.fixed("b", 3, 1000.0), barrier=True),)),
    )
    trace = Trace("made", jobs)
    simulator = session(trace, 8, conditions=capped(4, (0, -1)))
    play(simulator, Heuristic("fifo"))
    assert most_at_once(simulator, (0,)) == 2
    refused = "needs 3 slots at once, and its cap is 2"
    with pytest.raises(SimulationError, match=refused):
        session(trace, 8, conditions=capped(2, (0, 0)))
    with pytest.raises(SimulationError, match="needs 2 slots at once, and its cap is 1"):
        session(trace, 8, conditions=capped(1, (0, -1)))


def test_jobs_that_wait_for_their_place_count_as_in_the_system() -> None:
    """Rewards add up to the time of all jobs, and a truncated run has those that wait."""
    run = Run(ARRIVAL_MS, ROWS)
    vector = VectorSimulator(to_arrays(four_jobs()), bounded(1), [run])
    total_s = 0.0
    while vector.alive.any():
        batch = vector.observation()
        total_s += float(vector.step(batch.first_open_stages(), batch.num_executors).reward_s[0])
    assert -total_s == pytest.approx(1.0 + 1.9 + 2.8 + 3.7)
    simulator = session(four_jobs(), max_jobs=1, time_limit_ms=1_500.0)
    play(simulator, Heuristic("fifo"))
    metrics = measure(simulator.state)
    assert metrics.jct_s == pytest.approx([1.0, 1.4, 1.3, 1.2])
    assert metrics.mean_jobs_in_system * 1.5 == pytest.approx(1.0 + 1.4 + 1.3 + 1.2)


@pytest.mark.parametrize(
    ("conditions", "expected_s"),
    [
        # The client of the first job submits the third when it ends; the second has waited longer.
        (Conditions(follows=np.array([-1, -1, 0]), lag_ms=np.zeros(3)), [1.0, 1.9, 2.0]),
        # The driver plans for 600 ms: over long before the second job's turn at 1.6 s.
        (Conditions(wait_ms=np.full(2, 600.0)), [1.6, 2.5]),
    ],
    ids=["followers come after those that wait", "the driver's wait passes while a job waits"],
)
def test_other_conditions_beside_the_bound(conditions: Conditions, expected_s: list[float]) -> None:
    jobs = four_jobs().jobs[: len(expected_s)]
    simulator = session(Trace("made", jobs), max_jobs=1, conditions=conditions)
    assert jct_s(simulator, "fifo") == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("cluster", "conditions", "words"),
    [
        *(
            ({"max_jobs": count}, None, "whole number of 1 or more")
            for count in (0, -1, 1.5, True, "two")
        ),
        ({"max_jobs": 2, "protocol": Protocol.EXECUTORS}, None, "no bound on jobs at once"),
        ({"protocol": Protocol.EXECUTORS}, capped(1), "caps of slots need the protocol 'session'"),
        ({}, capped(1, (0, 1, -1, -1)), "not among 1"),
        ({}, capped(1, (0, 0)), "2 jobs under caps for 4 rows"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(
    cluster: dict[str, Any], conditions: Conditions | None, words: str
) -> None:
    with pytest.raises(SimulationError, match=words):
        Simulator(
            to_arrays(four_jobs()),
            Cluster(**{"protocol": Protocol.SESSION, **cluster}),
            ARRIVAL_MS,
            ROWS,
            conditions=conditions,
        )
