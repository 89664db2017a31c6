"""A look ahead from observations alone: the session is rebuilt, and plans are compared in it."""

from __future__ import annotations

import numpy as np
import pytest

from decima.agent.lookahead.future_kernels import cost_ms, forget
from decima.agent.lookahead.live import ArrivalWatch, LiveSearchPolicy, with_spread
from decima.agent.plans import Plans, preferences
from decima.agent.policy import LearnedPolicy
from decima.errors import PolicyError
from decima.registry import Heuristic
from spark_sim import Action, Cluster, Observation, Protocol, Simulator, Status
from spark_sim.rounds import state_of
from spark_sim.setup import copied
from spark_sim.tables import RUNNING
from tests.test_agent_support import (
    ARRAYS,
    CLUSTERS,
    batch_run,
    random_network,
    run_of,
    simulator_of,
)
from traces import Job, Stage, Trace, to_arrays

SESSION = CLUSTERS["session"]
NETWORK = random_network(1)


def first_of_rounds(simulator: Simulator, most: int) -> int:
    """Play strict fair and compare each round's begin with what is rebuilt; how many rounds."""
    fair = Heuristic("strict_fair").on(ARRAYS)
    rounds: set[int] = set()
    while simulator.status is Status.DECIDE and len(rounds) < most:
        seen = simulator.observation()
        if seen.round_number not in rounds:
            rounds.add(seen.round_number)
            assert_rebuilt(simulator, seen)
        simulator.step(fair.decide(seen))
    return len(rounds)


def assert_rebuilt(simulator: Simulator, seen: Observation) -> None:
    """Everything that decides what happens next is as in the simulation, but running times."""
    own, found = simulator.state, state_of(seen, ARRAYS)
    here = np.isin(own.stages["job"], seen.active)
    for column in ("launched", "finished", "runnable", "open", "covered", "parents_running"):
        assert own.stages[column][here].tolist() == found.stages[column][here].tolist(), column
    for column in ("attached", "stages_done", "held", "local", "open_stages", "remaining_ms"):
        assert own.jobs[column][seen.active].tolist() == found.jobs[column][seen.active].tolist()
    for column in ("num_active", "on_offer", "open_stages", "unattached", "time_ms", "present"):
        assert own.clock[0][column] == found.clock[0][column], column
    busy = [
        np.sort(one.executors["stage"][one.executors["state"] == RUNNING]) for one in (own, found)
    ]
    assert busy[0].tolist() == busy[1].tolist()


def test_a_session_is_rebuilt_from_what_it_shows() -> None:
    """At every round of a stream of jobs: counts, open stages, free slots."""
    assert first_of_rounds(simulator_of(run_of(3, jobs=12), SESSION), most=150) == 150


def test_a_rebuilt_session_has_the_future_of_the_simulation() -> None:
    """With nothing under way, and the same draws of durations, plans cost exactly the same."""
    simulator = simulator_of(batch_run(4), SESSION)
    policy = LearnedPolicy(NETWORK, ARRAYS)
    legal = policy.plan(simulator.observation()).tables.legal
    assert policy.planned is not None
    wanted = preferences(policy.planned.plan, legal)
    fair = Heuristic("strict_fair").compiled(ARRAYS, simulator.state.classes)
    costs = []
    for whole in (copied(simulator.state), state_of(simulator.observation(), ARRAYS)):
        state = whole._replace(timeline=whole.timeline[:0])
        forget(state, np.uint64(9))
        costs.append(cost_ms(state, wanted, 0, *fair))
    assert costs[0] == costs[1] > 0.0


class Counting(LiveSearchPolicy):
    """A policy that notes the newest arrival at each of its plans."""

    def __init__(self) -> None:
        super().__init__(NETWORK, ARRAYS)
        self.arrivals_ms: list[float] = []

    def _choose(self, observation: Observation, seen: object) -> Plans:
        self.arrivals_ms.append(observation.last_arrival_ms)
        return super()._choose(observation, seen)  # type: ignore[arg-type]


def test_plans_are_compared_when_a_job_has_arrived() -> None:
    """Once an arrival, some of them with another plan; the same again with the same session."""
    actions: list[list[Action]] = []
    for _ in range(2):
        policy, taken = Counting(), list[Action]()
        simulator = simulator_of(run_of(5, jobs=8), SESSION)
        while simulator.status is Status.DECIDE:
            taken.append(policy.decide(simulator.observation()))
            simulator.step(taken[-1])
        actions.append(taken)
        assert policy.searches == len(set(policy.arrivals_ms)) < len(policy.arrivals_ms)
        assert 0 < policy.changed <= policy.searches
    assert actions[0] == actions[1]


def test_a_session_makes_policies_anew_and_searches_no_more_for_it() -> None:
    """For other graphs, slots or jobs gone; arrivals are told by gaps and by quiet times alone."""
    arrivals = ArrivalWatch()
    seen = simulator_of(run_of(5, jobs=8), SESSION).observation()
    at_ms = seen.time_ms
    assert arrivals.are_new(seen)
    assert not arrivals.are_new(seen._replace(time_ms=at_ms + 50.0, num_executors=3))
    shifted = seen._replace(time_ms=at_ms - 900.0, last_arrival_ms=seen.last_arrival_ms - 1_000.0)
    assert not arrivals.are_new(shifted), "the oldest job has gone"
    assert arrivals.are_new(seen._replace(time_ms=at_ms + 70.0, mean_gap_ms=77.0))
    assert arrivals.are_new(seen._replace(time_ms=at_ms, mean_gap_ms=77.0)), "a second later"
    assert arrivals.count == 3


def test_a_round_with_choices_is_not_searched() -> None:
    """Executors that are given away already cannot be compared."""
    simulator = simulator_of(batch_run(4), SESSION)
    first = int(simulator.observation().open_stages()[0])
    simulator.step(Action(first, 1))
    policy = LiveSearchPolicy(NETWORK, ARRAYS)
    policy.decide(simulator.observation())
    assert policy.searches == 0


def test_a_better_plan_is_found_and_played() -> None:
    """One slot: whatever the network thinks, the short job comes before the long one."""
    long = Job("long", (Stage.fixed("s", 10, 4_000.0, []),))
    short = Job("short", (Stage.fixed("s", 1, 1_000.0, []),))
    arrays = to_arrays(Trace("two", (long, short)))
    cluster = Cluster(num_executors=1, protocol=Protocol.SESSION)
    changed = 0
    for seed in range(8):
        simulator = Simulator(arrays, cluster, np.zeros(2), np.arange(2, dtype=np.int32))
        policy = LiveSearchPolicy(random_network(seed), arrays)
        assert policy.decide(simulator.observation()).stage == 1
        changed += policy.changed
    assert 0 < changed < 8


def test_only_a_session_can_be_rebuilt() -> None:
    """Executors that move are on their way where no observation shows them."""
    simulator = simulator_of(batch_run(2), CLUSTERS["executors"])
    with pytest.raises(PolicyError, match=r"'decima:search' looks ahead .* a session alone"):
        LiveSearchPolicy(NETWORK, ARRAYS).decide(simulator.observation())


def test_where_only_means_are_known_durations_are_spread_about_them() -> None:
    """The mean stays; a trace with durations of its own stays as it is."""
    flat = to_arrays(Trace("flat", (Job("a", (Stage.fixed("s", 3, 2_000.0, []),)),)))
    found = with_spread(flat)
    logs = np.log(found.samples_ms[found.wave_start[0, 2] :][: found.wave_count[0, 2]])
    assert found.samples_ms.mean() == pytest.approx(2_000.0)
    assert logs.std() == pytest.approx(0.35, abs=0.05)
    assert with_spread(ARRAYS) is ARRAYS
