"""The compiled forward pass: the scores of `PolicyNetwork.forward`, embeddings kept between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from decima.agent import plans
from decima.agent.graph import GraphSorter
from decima.agent.network import PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.rollout import Lanes, Lockstep
from decima.agent.scorer import Scored, Scorer
from decima.agent.weights import NetworkConfig
from spark_sim import Action, Cluster, Status
from tests import networks
from tests.networks import whole_graph
from tests.test_agent_support import (
    ARRAYS,
    CLUSTERS,
    RUNS,
    SCALES,
    SMALL,
    VARIANTS,
    batch_run,
    each_protocol,
    played,
    run_of,
    simulator_of,
)

SORTER = GraphSorter(ARRAYS)
ARCHITECTURES = {
    "as shipped": NetworkConfig(),
    "linear transforms": replace(SMALL, hidden=()),
    "three hidden layers": replace(SMALL, hidden=(9, 4, 5)),
    "one hidden layer in the heads": replace(SMALL, head_hidden=(3,)),
    "heads that widen": replace(SMALL, head_hidden=(4, 11, 6)),
    "an embedding of one": replace(SMALL, embedding=1),
    **VARIANTS,
}


def random_network(seed: int, config: NetworkConfig = SMALL) -> PolicyNetwork:
    """Weights as a training begins with, so that sums stay small; no bias and no head at 0."""
    network = networks.random_network(seed, config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return network


def has_choice(scored: Scored) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """(M,) limits of jobs that have more than one, as far as they were scored."""
    job = scored.choices.limit_job
    return np.asarray((np.bincount(job, minlength=1)[job] > 1) & ~np.isnan(scored.scores.limit))


def assert_as_in_full(network: PolicyNetwork, scored: Scored) -> None:
    """All scores are those of the whole graph, to 1e-6 of the largest or of 1.

    A limit without another has none: no score of it matters.
    """
    graph, choices = whole_graph(scored.observation, SORTER, SCALES)
    with torch.no_grad():
        full = network(graph)
    np.testing.assert_array_equal(choices.open_stage, scored.choices.open_stage)
    np.testing.assert_array_equal(choices.limit, scored.choices.limit)
    chosen = has_choice(scored)
    for name, actual in scored.scores._asdict().items():
        wanted = getattr(full, name).numpy()
        assert actual.shape == wanted.shape, name
        rows = chosen if name == "limit" else np.ones(len(actual), np.bool_)
        actual, wanted = actual[rows], wanted[rows]  # noqa: PLW2901
        largest = max(1.0, float(np.abs(wanted).max(initial=0.0)))
        np.testing.assert_allclose(actual, wanted, rtol=0.0, atol=1e-6 * largest, err_msg=name)


@each_protocol
def test_in_one_simulation_the_scores_are_those_of_a_full_pass(cluster: Cluster) -> None:
    """At every decision of a run, whatever the jobs went through before."""
    network = random_network(3)
    policy = LearnedPolicy(network, ARRAYS, key=1)
    simulator = simulator_of(run_of(2, jobs=6), cluster)
    count = 0
    for scored, _ in played(policy, simulator):
        assert_as_in_full(network, scored)
        count += 1
    assert simulator.status is not Status.DECIDE
    assert count > 40


@pytest.mark.parametrize("config", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_each_architecture_is_the_same_in_both(config: NetworkConfig) -> None:
    """Whatever the number and the sizes of layers, and the parts left out; with classes, so every
    head is in use. Four simulations side by side, of which some are over before the others.
    """
    network, keys = random_network(4, config), np.arange(1, 5).astype(np.uint64)
    count, fewest, most_limits = 0, 4, 0
    lockstep = Lockstep(network, SCALES, Lanes(ARRAYS, CLUSTERS["classes"], RUNS, keys))
    for step in lockstep:
        fewest = min(fewest, int(lockstep.simulators.alive.sum()))
        assert_as_in_full(network, step.scored)
        most_limits = max(most_limits, int(has_choice(step.scored).sum()))
        lockstep.simulators.follow(plans.preferences(step.plans, step.scored.choices))
        count += 1
    assert count > 30
    assert fewest == 1
    assert most_limits > 30


def test_weights_are_copied_when_a_scorer_is_made() -> None:
    """A network that learns on does not change what acts; a new scorer has the new weights."""
    network = random_network(5)
    seen = simulator_of(RUNS[1], CLUSTERS["executors"]).observation().as_batch()

    def looked(scorer: Scorer) -> Scored:
        scorer.make_room(len(seen.jobs), len(seen.stages))
        scorer.forget()
        return scorer.score(seen)

    scorer = Scorer(network, ARRAYS, SCALES)
    before = looked(scorer)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.05)
    after = looked(scorer)
    for name, values in before.scores._asdict().items():
        np.testing.assert_array_equal(values, getattr(after.scores, name))
    other = looked(Scorer(network, ARRAYS, SCALES))
    assert not np.array_equal(before.scores.stage, other.scores.stage)
    assert_as_in_full(network, other)


def test_only_jobs_that_changed_are_embedded_again() -> None:
    """A second look at the same scene embeds nothing; a choice, the job that was chosen."""
    network = random_network(2)
    policy = LearnedPolicy(network, ARRAYS)
    simulator = simulator_of(batch_run(1, jobs=5), CLUSTERS["executors"])
    assert policy.score(simulator.observation()).changed.tolist() == [0, 1, 2, 3, 4]
    assert len(policy.score(simulator.observation()).changed) == 0

    observation = simulator.observation()
    stage = int(observation.open_stages()[0])
    job = int(observation.stages["job"][stage])
    simulator.step(Action(stage, 1))
    assert simulator.time_ms == observation.time_ms, "the round goes on"
    after = policy.score(simulator.observation())
    assert after.observation.rows[after.changed].tolist() == [job]
    assert_as_in_full(network, after)
