"""A network as a policy: legal plans, one by one or in lockstep, likeliest or drawn."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from decima.agent import plans
from decima.agent.plans import Plans
from decima.agent.policy import LearnedPolicy
from decima.agent.rollout import Lanes, play_out
from decima.agent.scorer import Scored, Scorer
from spark_sim import PASS, Action, Cluster, Protocol, Status
from spark_sim.observation import ObservationBatch, read_only
from spark_sim.vector import Run
from tests.test_agent_support import (
    ARRAYS,
    CLUSTERS,
    RUNS,
    SCALES,
    VARIANTS,
    each_protocol,
    random_network,
    simulator_of,
)
from tests.workloads import Workload, workloads
from traces import to_arrays
from traces.numbers import Int64


def completions(policy: LearnedPolicy, run: Run, cluster: Cluster) -> list[float]:
    """When each job was complete, one choice after the other; NaN for the unfinished."""
    simulator = simulator_of(run, cluster)
    while simulator.status is Status.DECIDE:
        simulator.step(policy.decide(simulator.observation()))
    return simulator.completion_ms().tolist()


@each_protocol
def test_one_by_one_is_what_lockstep_plays(cluster: Cluster) -> None:
    """The likeliest plans of the same runs, to the same ends."""
    network = random_network(5)
    played = play_out(network, SCALES, Lanes(ARRAYS, cluster, RUNS, None))
    for run, state in zip(RUNS, played.states, strict=True):
        expected = completions(LearnedPolicy(network, ARRAYS), run, cluster)
        np.testing.assert_array_equal(state.jobs["completion_ms"], expected)


class Counting(LearnedPolicy):
    """Counts its passes."""

    passes = 0

    def plan(self, observation):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        self.passes += 1
        return super().plan(observation)


@each_protocol
def test_a_round_is_planned_once(cluster: Cluster) -> None:
    """One pass of the network for all choices of a round, and one more where choices open stages:
    in a session, where they open none, one for each round. `attach` hands policies views that
    cannot be written to, each time new ones: they cost no further pass.
    """
    outcomes = []
    for show in (lambda seen: seen, read_only):
        policy, rounds, actions = Counting(random_network(5), ARRAYS), set[int](), list[Action]()
        simulator = simulator_of(RUNS[0], cluster)
        while simulator.status is Status.DECIDE:
            seen = simulator.observation()
            rounds.add(seen.round_number)
            actions.append(policy.decide(show(seen)))
            simulator.step(actions[-1])
        outcomes.append((policy.passes, actions))
    assert outcomes[0] == outcomes[1]
    assert len(rounds) <= outcomes[0][0] < len(actions)
    assert cluster.protocol is not Protocol.SESSION or outcomes[0][0] == len(rounds)


def test_lanes_may_have_a_network_each() -> None:
    """Each plays as alone; a number of networks that does not fit is refused."""
    cluster = CLUSTERS["executors"]
    networks = [random_network(seed) for seed in (6, 7)]
    lanes = Lanes(ARRAYS, cluster, [RUNS[0], RUNS[0]], None)
    played = play_out(networks, SCALES, lanes)
    ends = [state.jobs["completion_ms"] for state in played.states]
    for network, completion_ms in zip(networks, ends, strict=True):
        expected = completions(LearnedPolicy(network, ARRAYS), RUNS[0], cluster)
        np.testing.assert_array_equal(completion_ms, expected)
    assert (ends[0] != ends[1]).any()
    with pytest.raises(ValueError, match="2 networks cannot play 1 lanes"):
        play_out(networks, SCALES, lanes._replace(runs=RUNS[:1]))


def test_drawn_runs_repeat_themselves_and_do_not_depend_on_their_neighbours() -> None:
    """A run's key decides its plans; another key, other plans."""
    network, cluster = random_network(5), CLUSTERS["session"]

    def ends(runs: list[Run], keys: list[int]) -> list[list[float]]:
        lanes = Lanes(ARRAYS, cluster, runs, np.array(keys, np.uint64))
        played = play_out(network, SCALES, lanes)
        return [state.jobs["completion_ms"].tolist() for state in played.states]

    together = ends([RUNS[0], RUNS[1], RUNS[0]], [7, 8, 9])
    assert ends([RUNS[0]], [7]) == together[:1]
    assert ends([RUNS[1], RUNS[0]], [8, 9]) == together[1:]
    assert together[0] != together[2]


@given(
    workload=workloads(),
    label=st.sampled_from(sorted(VARIANTS)),
    seed=st.integers(0, 10**6),
    is_sampled=st.booleans(),
)
@settings(max_examples=60)
def test_a_plan_is_legal_and_has_every_limit_that_its_round_looks_at(
    workload: Workload, label: str, seed: int, is_sampled: bool
) -> None:
    """Random weights on random jobs, clusters and protocols, to the end of every run: the same as
    with the limits of all jobs scored.
    """

    def completion_ms() -> list[float]:
        simulator = workload.simulator()
        network = random_network(seed, VARIANTS[label])
        key = seed + 1 if is_sampled else None
        policy = LearnedPolicy(network, to_arrays(workload.trace), key=key)
        while simulator.status is Status.DECIDE:
            simulator.step(policy.decide(simulator.observation()))  # raises on an illegal choice
        assert simulator.status in (Status.DONE, Status.DEADLOCK)
        return simulator.completion_ms().tolist()

    class EveryLimit(Scorer):
        """Scores and draws the limits of all jobs."""

        def plan(
            self, observation: ObservationBatch, lanes: Int64, key: NDArray[np.uint64] | None
        ) -> tuple[Scored, Plans]:
            scored = self.score(observation)
            return scored, plans.draw(scored.scores, scored.choices, lanes, key)

    few = completion_ms()
    with patch("decima.agent.policy.Scorer", EveryLimit):
        np.testing.assert_array_equal(completion_ms(), few)


@pytest.mark.parametrize("label", ["full", "no limits"])
def test_without_the_limit_head_a_job_gets_all_that_it_can_use(label: str) -> None:
    """At each choice of a run: everything on offer, or as many as the job's stages can take."""
    policy = LearnedPolicy(random_network(3, VARIANTS[label]), ARRAYS, key=1)
    simulator = simulator_of(RUNS[1], CLUSTERS["session"])
    fewer = 0
    while simulator.status is Status.DECIDE:
        observation = simulator.observation()
        action = policy.decide(observation)
        if action != PASS:
            job = observation.jobs[observation.stages["job"][action.stage]]
            room = min(observation.on_offer, observation.num_executors - int(job["held"]))
            fewer += action.limit - int(job["held"]) < min(room, observation.demand(action.stage))
        simulator.step(action)
    assert (fewer > 0) == (label == "full")
