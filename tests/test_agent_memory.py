"""Embeddings kept between decisions: the scores of a full pass of the network, for less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from decima.agent.memory import Memory, Seen
from gnn.few import FewNodes, Flow
from gnn.layer_kernels import Real

from decima.agent import plans
from decima.agent.graph import GraphSorter, units_of, whole_graph
from decima.agent.network import NetworkConfig, PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.rollout import Lanes, Lockstep
from decima.agent.scene import scene_of_batch
from spark_sim import Cluster, Status
from spark_sim.vector import VectorSimulator
from tests.test_agent_support import (
    ARRAYS,
    CLUSTERS,
    SCALES,
    batch_run,
    each_protocol,
    each_variant,
    played,
    random_network,
    run_of,
    simulator_of,
)

RUNS = [run_of(1), run_of(2, jobs=6), run_of(3, jobs=1), run_of(4, time_limit_ms=60_000.0)]
SORTER = GraphSorter(ARRAYS)


def assert_as_in_full(network: PolicyNetwork, seen: Seen) -> None:
    """All scores, to 1e-6 of the largest or of 1, are `network(whole graph)`; to four times that
    with torch's own sums, which go in another order.
    """
    graph, legal = whole_graph(seen.scene, SORTER, units_of(SCALES, network.rule.numpy()))
    with torch.no_grad():
        full = network(graph)
    by_torch = network(graph)
    assert by_torch.value.requires_grad, "with gradients nothing is done in compiled code"
    np.testing.assert_array_equal(legal.open_stage, seen.legal.open_stage)
    np.testing.assert_array_equal(legal.limit, seen.legal.limit)
    for one, other, slow in zip(seen.scores, full, by_torch, strict=True):
        largest = max(1.0, float(other.abs().max())) if len(other) else 1.0
        torch.testing.assert_close(one, other, rtol=0.0, atol=1e-6 * largest)
        torch.testing.assert_close(one, slow.detach(), rtol=0.0, atol=4e-6 * largest)


@each_protocol
def test_in_one_simulation_the_scores_are_those_of_a_full_pass(cluster: Cluster) -> None:
    """At every decision of a run, whatever the jobs went through before."""
    network = random_network(3)
    policy = LearnedPolicy(network, ARRAYS, key=1)
    simulator = simulator_of(run_of(2, jobs=6), cluster)
    count = 0
    for seen, _ in played(policy, simulator):
        assert_as_in_full(network, seen)
        count += 1
    assert simulator.status is not Status.DECIDE
    assert count > 40


@each_variant
def test_in_lockstep_the_scores_are_those_of_a_full_pass(config: NetworkConfig) -> None:
    """Four simulations side by side, of which some are over before the others."""
    network = random_network(4, config)
    keys = np.arange(1, 5).astype(np.uint64)
    count, fewest = 0, 4
    lockstep = Lockstep(network, SCALES, Lanes(ARRAYS, CLUSTERS["executors"], RUNS, keys))
    for step in lockstep:
        fewest = min(fewest, int(lockstep.simulators.alive.sum()))
        assert_as_in_full(network, step.seen)
        lockstep.simulators.follow(plans.preferences(step.plans, step.seen.legal))
        count += 1
    assert count > 30
    assert fewest == 1


@pytest.mark.parametrize("patched", ["decima.agent.scores.FEW_ROWS", "gnn.encoder.FEW_NODES"])
def test_many_choices_or_nodes_are_scored_by_torch(
    patched: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of large scenes, without gradients too."""
    network = random_network(5)
    simulator = simulator_of(RUNS[1], CLUSTERS["classes"])
    few = LearnedPolicy(network, ARRAYS).look(simulator.observation())
    monkeypatch.setattr(patched, -1)
    many = LearnedPolicy(network, ARRAYS).look(simulator.observation())
    assert not many.scores.stage.requires_grad
    assert not torch.equal(few.scores.stage, many.scores.stage), "rounded otherwise"
    assert_as_in_full(network, many)


@pytest.mark.parametrize("few_rows", [400, -1])
def test_a_limit_without_another_has_no_score(
    few_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in compiled code nor in torch; its plan is as likely as ever."""
    monkeypatch.setattr("decima.agent.scores.FEW_ROWS", few_rows)
    policy = LearnedPolicy(random_network(6), ARRAYS)
    alone = with_others = 0
    few_slots = replace(CLUSTERS["session"], num_executors=2)
    for seen, _ in played(policy, simulator_of(batch_run(1, jobs=12), few_slots)):
        job = seen.graph.job_of_limit
        is_alone = torch.bincount(job)[job] == 1
        assert bool((seen.scores.limit[is_alone] == 0).all())
        assert bool((seen.scores.limit[~is_alone] != 0).all())
        alone += int(is_alone.sum())
        with_others += int((~is_alone).sum())
    assert alone > 400
    assert with_others > 400


def test_embeddings_count() -> None:
    """Other embeddings give other scores, but for the network that is to know none."""
    for embeddings in (True, False):
        network = random_network(
            4, NetworkConfig(embedding=6, hidden=(7,), head_hidden=(9,), embeddings=embeddings)
        )
        simulator = simulator_of(RUNS[0], CLUSTERS["executors"])
        seen = LearnedPolicy(network, ARRAYS).look(simulator.observation())
        with torch.no_grad():
            network.encoder.lift.weight.mul_(2.0)
        other = LearnedPolicy(network, ARRAYS).look(simulator.observation())
        assert torch.equal(seen.scores.stage, other.scores.stage) != embeddings


# --- what it saves -------------------------------------------------------------------------------


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes each pass of the encoder had."""
    counts: list[int] = []
    plain = FewNodes.embed

    def counting(self: FewNodes, x: Real, flow: Flow, num_jobs: int) -> tuple[Real, Real, Real]:
        counts.append(len(x))
        return plain(self, x, flow, num_jobs)

    monkeypatch.setattr(FewNodes, "embed", counting)
    return counts


def test_only_jobs_that_changed_are_embedded_again(embedded: list[int]) -> None:
    """A second look at the same scene embeds nothing; a choice, the job that was chosen."""
    network = random_network(2)
    policy = LearnedPolicy(network, ARRAYS)
    simulator = simulator_of(RUNS[1], CLUSTERS["executors"])
    for seen, _ in played(policy, simulator):
        if len(seen.scene.rows) >= 3:
            break
    embedded.clear()
    again = policy.look(simulator.observation())
    assert embedded == []
    assert len(again.changed) == 0

    observation = simulator.observation()
    action = policy.decide(observation)
    job = int(observation.stages["job"][action.stage])
    simulator.step(action)
    after = policy.look(simulator.observation())
    changed = set(after.scene.rows[after.changed].tolist())
    if simulator.time_ms == observation.time_ms:
        assert changed == {job}
    assert sum(embedded) == simulator.state.jobs["num_stages"][sorted(changed)].sum()


def test_another_run_is_seen_for_the_first_time() -> None:
    """One policy for two simulations in turn: whatever it remembers of the other does not count."""
    network = random_network(6)
    policy = LearnedPolicy(network, ARRAYS)
    simulators = [simulator_of(run, CLUSTERS["executors"]) for run in RUNS[:2]]
    for _ in range(20):
        for simulator in simulators:
            seen = policy.look(simulator.observation())
            assert_as_in_full(network, seen)
            simulator.step(policy.decide(simulator.observation()))


def test_making_room_keeps_what_is_remembered(embedded: list[int]) -> None:
    """A memory that grows between two looks embeds nothing again; one that forgets, everything."""
    network = random_network(2)
    simulators = VectorSimulator(ARRAYS, CLUSTERS["executors"], RUNS[:2])
    jobs_each, stages_each = simulators.capacity
    scene = scene_of_batch(simulators.observation(), jobs_each, stages_each)
    memory = Memory(network, ARRAYS, SCALES)
    memory.make_room(2 * jobs_each, 2 * stages_each)
    before = memory.look(scene)
    nodes = sum(embedded)
    embedded.clear()
    memory.make_room(20 * jobs_each, 20 * stages_each)
    after = memory.look(scene)
    assert embedded == []
    torch.testing.assert_close(after.scores.stage, before.scores.stage, rtol=0.0, atol=0.0)
    memory.forget()
    torch.testing.assert_close(memory.look(scene).scores.limit, before.scores.limit)
    assert embedded == [nodes]


def test_a_graph_without_nodes_needs_embeddings() -> None:
    """It says so, and does not fail somewhere inside."""
    network = random_network(1)
    seen = LearnedPolicy(network, ARRAYS).look(
        simulator_of(RUNS[0], CLUSTERS["executors"]).observation()
    )
    with pytest.raises(ValueError, match="without nodes"):
        network(seen.graph)
