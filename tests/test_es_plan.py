"""The rule's plan of a round: nearly the rule's own choices, and what a new network does."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from decima import HEURISTICS, Heuristic
from decima.agent.graph import describe, units_of
from decima.agent.network import NetworkConfig, PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.rollout import Lanes, play_out
from decima.agent.scene import scene_of
from decima.heuristics.es_rule import PARAMETERS
from spark_sim import PASS, Cluster, Observation, Protocol, Simulator, Status
from spark_sim.metrics import measure
from spark_sim.vector import Run
from tests.column_oracle import Oracle, rule_numbers
from tests.test_agent_support import (
    ARRAYS,
    CLASSES,
    CLUSTERS,
    SCALES,
    batch_run,
    run_of,
    simulator_of,
)
from tests.workloads import Arbitrary

SHIPPED = dict(HEURISTICS["es_rule"].defaults)
SESSION = Cluster(num_executors=16, protocol=Protocol.SESSION)
EXECUTORS = Cluster(num_executors=12)


class Planned(NamedTuple):
    """What the rule would choose in a round."""

    stages: list[int]
    """in order"""
    given: list[int]
    """executors of each job in sight"""


def planned(seen: Observation, weights: dict[str, float]) -> Planned:
    """By one look at it (`es_plan`)."""
    units = units_of(SCALES, rule_numbers(weights))
    found, legal = describe(scene_of(seen), units)
    places = np.argsort(found.rank)[int((found.rank < 0).sum()) :]
    assert sorted(found.rank[places].tolist()) == list(range(int(found.planned[0])))
    return Planned(legal.open_stage[places].tolist(), found.taken.tolist())


def random_rule(seed: int) -> dict[str, float]:
    drawn = np.random.default_rng(seed).normal(0.0, 1.0, len(PARAMETERS))
    return dict(zip(PARAMETERS, drawn.tolist(), strict=True))


# --- one look, or a look for each choice ----------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "slots", "rounds", "moved"),
    [(SHIPPED, 16, 0.95, 0.01), (SHIPPED, 64, 0.8, 0.02), (random_rule(1), 16, 0.4, 0.1)],
    ids=["shipped", "shipped, 64 slots", "random"],
)
def test_in_a_session_the_plan_is_nearly_what_the_rule_chooses(
    weights: dict[str, float], slots: int, rounds: float, moved: float
) -> None:
    """Round by round of a batch of 25: the same stages in the same order, as many executors each.

    Not always: a plan judges anew only the job that seems best, and what share of the slots left is
    in a job, which the rule looks at, moves with every slot given. With the shipped weights 97 % of
    the rounds are the same on 16 slots, 85 % on 64, where 1 % of the slots go elsewhere; weights
    drawn at random look at that share far more.
    """
    simulator = simulator_of(batch_run(4, jobs=25), replace(SESSION, num_executors=slots))
    policy = Heuristic("es_rule", weights)
    same: list[bool] = []
    elsewhere: list[float] = []
    while simulator.status is Status.DECIDE:
        expected = planned(simulator.observation(), weights)
        found = chosen_in_round(simulator, policy)
        same.append(found == expected)
        apart = np.abs(np.subtract(found.given, expected.given)).sum()
        elsewhere.append(apart / max(1, sum(found.given)) / 2)
    assert len(same) > 200
    assert np.mean(same) > rounds
    assert np.mean(elsewhere) < moved


def chosen_in_round(simulator: Simulator, policy: Heuristic) -> Planned:
    """Play the round that is open; what the policy chose in it, one by one."""
    seen = simulator.observation()
    number = seen.round_number
    given = dict.fromkeys(seen.active.tolist(), 0)
    stages = []
    while simulator.status is Status.DECIDE and seen.round_number == number:
        action = policy.decide(seen)
        if action != PASS:
            row = seen.stages[action.stage]
            room = action.limit - int(seen.jobs["held"][row["job"]])
            given[int(row["job"])] += min(
                int(row["num_tasks"] - row["covered"]), room, seen.on_offer
            )
            stages.append(action.stage)
        simulator.step(action)
        seen = simulator.observation()
    return Planned(stages, list(given.values()))


@pytest.mark.parametrize("cluster", [EXECUTORS, replace(EXECUTORS, num_executors=60)])
def test_with_executors_the_plan_is_nearly_the_rule_asked_again_and_again(
    cluster: Cluster,
) -> None:
    """Against an oracle that judges every job anew for each choice, but opens no new stages."""
    simulator = simulator_of(run_of(6, jobs=20), cluster)
    policy = Arbitrary(3)
    same: list[bool] = []
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        if len(seen.active):
            wanted = Oracle(seen, SCALES, SHIPPED).plan
            stages = [stage for stage, _ in wanted.order]
            same.append(planned(seen, SHIPPED) == Planned(stages, list(wanted.given.values())))
        simulator.step(policy.decide(seen))
    assert len(same) > 200
    assert np.mean(same) > 0.95


def test_a_plan_gives_no_more_than_there_is() -> None:
    """Any weights: executors on offer, room in the cluster, each job's tasks; and somebody gets one
    if a job that could use one holds none.
    """
    for seed in range(6):
        simulator = simulator_of(
            run_of(seed, jobs=6), replace(EXECUTORS, num_executors=4 + 7 * seed)
        )
        weights, policy = random_rule(seed), Arbitrary(seed)
        while simulator.status is Status.DECIDE:
            seen = simulator.observation()
            found = planned(seen, weights)
            held = seen.jobs["held"][seen.active] + np.array(found.given, np.int64)
            assert sum(found.given) <= seen.on_offer
            assert (held <= seen.num_executors).all()
            assert len(set(found.stages)) == len(found.stages)
            demand = [seen.demand(stage) for stage in found.stages]
            assert all(one > 0 for one in demand)
            assert sum(found.given) <= sum(demand)
            starving = (held == 0) & (seen.jobs["open_stages"][seen.active] > 0)
            assert not starving.any() or sum(found.given) == seen.on_offer
            simulator.step(policy.decide(seen))


# --- a new network -------------------------------------------------------------------------------


def average_jct_s(policy: Heuristic, cluster: Cluster, run: Run) -> float:
    simulator = simulator_of(run, cluster)
    policy.play(simulator)
    return measure(simulator.state).avg_jct_s


def lockstep_s(network: PolicyNetwork, cluster: Cluster, runs: list[Run]) -> list[float]:
    """Average JCT of each, all side by side."""
    played = play_out(network, SCALES, Lanes(ARRAYS, cluster, runs, None))
    return [measure(state).avg_jct_s for state in played.states]


RUNS = [run_of(seed, jobs=15) for seed in (11, 12, 13)]


@pytest.mark.parametrize(("slots", "within"), [(8, 0.01), (16, 0.01), (64, 0.01)])
def test_a_new_network_plays_a_session_as_the_rule_does(slots: int, within: float) -> None:
    """Learning starts where the rule is, but for the rounds that it plans otherwise (see above).

    Within 1 % of the mean (1.3 % in one run of four).
    """
    cluster = replace(SESSION, num_executors=slots)
    network = PolicyNetwork(NetworkConfig())
    runs = [*RUNS, batch_run(5, jobs=20)]
    expected = [average_jct_s(Heuristic("es_rules"), cluster, run) for run in runs]
    found = lockstep_s(network, cluster, runs)
    assert np.mean(found) == pytest.approx(np.mean(expected), rel=within)


@pytest.mark.parametrize("executors", [12, 50])
def test_a_new_network_plays_executors_nearly_as_the_rule_does(executors: int) -> None:
    """It plans a round where the rule looks again after each choice: within 2 % (1.7 % on 12)."""
    cluster = Cluster(num_executors=executors)
    runs = [*RUNS, batch_run(5, jobs=20)]
    expected = [average_jct_s(Heuristic("es_rules"), cluster, run) for run in runs]
    found = lockstep_s(PolicyNetwork(NetworkConfig()), cluster, runs)
    assert np.mean(found) == pytest.approx(np.mean(expected), rel=0.02)


@pytest.mark.parametrize(("count", "within"), [(2, 0.06), (6, 0.03)])
def test_a_new_network_plays_classes_nearly_as_the_rule_for_classes_does(
    count: int, within: float
) -> None:
    """On so many executors of each of four classes: 4.6 and 0.8 % apart."""
    classes = tuple(replace(one, count=count) for one in CLASSES)
    cluster = replace(
        CLUSTERS["classes"], num_executors=4 * count, classes=classes, time_limit_ms=None
    )
    runs = [*RUNS, batch_run(5, jobs=20)]
    expected = [average_jct_s(Heuristic("es_classes"), cluster, run) for run in runs]
    found = lockstep_s(PolicyNetwork(NetworkConfig()), cluster, runs)
    assert np.mean(found) == pytest.approx(np.mean(expected), rel=within)


def test_a_new_network_begins_at_the_rule_that_it_is_told() -> None:
    """Another rule plays otherwise, and so does the network that begins at it."""
    other = random_rule(4)
    network = PolicyNetwork(NetworkConfig())
    network.follow_rule(other)
    (found,) = lockstep_s(network, SESSION, RUNS[:1])
    assert found == pytest.approx(
        average_jct_s(Heuristic("es_rule", other), SESSION, RUNS[0]), rel=0.05
    )
    assert found != average_jct_s(Heuristic("es_rule"), SESSION, RUNS[0])


def test_without_the_rule_all_choices_start_equally_likely() -> None:
    """As in the paper: neither the columns nor the scores tell of the rule."""
    network = PolicyNetwork(NetworkConfig(rule=False))
    seen = simulator_of(batch_run(2), EXECUTORS).observation()
    scores = LearnedPolicy(network, ARRAYS).look(seen).scores
    for one in (scores.stage, scores.end, scores.limit):
        assert one.abs().max() == 0.0
