"""Recorded decisions scored again: the numbers that acting found, in any cut, with gradients."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import torch
from torch import Tensor

from decima.agent import plan_probabilities, plans
from decima.agent.forward_kernels import Scores
from decima.agent.graph import GraphSorter, joined_graphs
from decima.agent.network import PolicyNetwork
from decima.agent.plan_probabilities import Taken
from decima.agent.plans import rows_of
from decima.agent.recording import Recorder, Recording, joined
from decima.agent.rollout import Lanes, Lockstep
from decima.agent.weights import NetworkConfig
from decima.rl.optimiser import flat_gradient
from spark_sim import Cluster
from tests.networks import whole_graph
from tests.test_agent_support import (
    ARRAYS,
    CLUSTERS,
    RUNS,
    SCALES,
    SMALL,
    VARIANTS,
    random_network,
)
from traces.numbers import Int64

NETWORK = random_network(7)
SORTER = GraphSorter(ARRAYS)


def recorded(network: PolicyNetwork, cluster: Cluster) -> tuple[Recording, list[Scores[Tensor]]]:
    """What the network did on `RUNS`, and the scores of each decision as it acted."""
    recorder = Recorder()
    acted: list[Scores[Tensor]] = []
    log_prob: list[Tensor] = []
    lanes = Lanes(ARRAYS, cluster, RUNS, np.arange(1, 5).astype(np.uint64))
    lockstep = Lockstep(network, SCALES, lanes)
    for step in lockstep:
        scored, choices = step.scored, step.scored.choices
        recorder.take_snapshots(scored)
        used = lockstep.simulators.follow(plans.preferences(step.plans, choices))
        has_choice = np.flatnonzero(np.diff(choices.open_ptr) > 0)
        drawn = plans.picked(step.plans._replace(used=used), has_choice)
        recorder.take(scored, has_choice, drawn)
        scores = Scores(*(torch.from_numpy(logits) for logits in scored.scores))
        graph, _ = whole_graph(scored.observation, SORTER, SCALES)
        log_prob.append(plan_probabilities.taken(scores, graph, drawn).log_prob)
        asked = plans.asked_of(drawn)
        for row, lane in enumerate(has_choice.tolist()):
            alone = np.array([lane])
            stages = choices.open_ptr[lane] + asked.stage[asked.plan == row]
            acted.append(
                Scores(
                    scores.stage[rows_of(choices.open_ptr, alone)],
                    scores.end[alone],
                    scores.limit[rows_of(choices.limit_ptr, np.unique(choices.open_job[stages]))],
                    scores.kind[rows_of(choices.kind_ptr[choices.open_ptr], alone)],
                    scores.value[alone],
                )
            )
    recording = recorder.finish()
    assert recording is not None
    recording.log_prob = torch.cat(log_prob).numpy().astype(np.float64)
    return recording, acted


@lru_cache
def usual() -> tuple[Recording, list[Scores[Tensor]]]:
    return recorded(NETWORK, CLUSTERS["executors"])


def count_of(recording: Recording) -> int:
    return len(recording.decisions.lane)


def again(
    network: PolicyNetwork, recording: Recording, index: Int64
) -> tuple[Scores[Tensor], Taken, Int64]:
    """Scores, what is known of the plans, and which plans these are."""
    graph = recording.graph(index, SORTER)
    own, rows = recording.plans_of(index)
    scores = network(graph)
    return scores, plan_probabilities.taken(scores, graph, own), rows


def assert_as_acted(
    network: PolicyNetwork, recording: Recording, acted: list[Scores[Tensor]]
) -> None:
    """Every score to 1e-5, and the log-probabilities of all plans."""
    every = np.arange(count_of(recording))
    with torch.no_grad():
        scores, taken, rows = again(network, recording, every)
    job = recording.graph(every, SORTER).job_of_limit
    for name, values in scores._asdict().items():
        wanted = torch.cat([getattr(shard, name) for shard in acted])
        if name == "limit":  # one without another has no score where a network acts
            has_choice = torch.bincount(job)[job] > 1
            values, wanted = values[has_choice], wanted[has_choice]  # noqa: PLW2901
        torch.testing.assert_close(values, wanted, rtol=1e-5, atol=1e-5)
    assert rows.tolist() == list(range(len(recording.log_prob)))
    np.testing.assert_allclose(taken.log_prob, recording.log_prob, rtol=1e-4, atol=1e-4)


# --- the numbers of acting -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "cluster"),
    [
        *((config, CLUSTERS["executors"]) for config in VARIANTS.values()),
        *((SMALL, cluster) for label, cluster in CLUSTERS.items() if label != "executors"),
    ],
)
def test_scores_are_those_of_acting_and_gradients_reach_all_parts(
    config: NetworkConfig, cluster: Cluster
) -> None:
    """For each part of the network that can be left out, and under each protocol. Gradients are
    finite and reach every part in use; those that are left out get none.
    """
    network = random_network(7, config)
    recording, acted = recorded(network, cluster)
    assert count_of(recording) > 15
    assert recording.log_prob.min() < -1.0
    assert_as_acted(network, recording, acted)

    gradient = gradient_of(network, recording, [np.arange(count_of(recording))])
    assert bool(gradient.isfinite().all())
    reached = {
        name.partition(".")[0]
        for name, parameter in network.named_parameters()
        if parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
    }
    expected = {"encoder", "stage_head", "limit_head", "end_head", "value_head"}
    expected -= set() if config.embeddings else {"encoder"}
    expected -= set() if config.limit_head else {"limit_head"}
    expected |= {"class_head"} if cluster.classes is not None else set()
    assert reached == expected


def test_several_recordings_are_scored_as_one() -> None:
    """Of clusters of all kinds, with classes and without, some decisions twice; with gradients."""
    parts = [recorded(NETWORK, cluster)[0] for cluster in CLUSTERS.values()]
    rng = np.random.default_rng(3)
    cuts = [rng.integers(count_of(part), size=40) for part in parts]
    graphs = [part.graph(cut, SORTER) for part, cut in zip(parts, cuts, strict=True)]
    own = [part.plans_of(cut)[0] for part, cut in zip(parts, cuts, strict=True)]
    numbered = [
        recording._replace(decision=recording.decision + 40 * number)
        for number, recording in enumerate(own)
    ]
    graph = joined_graphs(graphs)
    scores = NETWORK(graph)
    together = plan_probabilities.taken(scores, graph, joined(numbered))
    alone = [
        plan_probabilities.taken(NETWORK(graph), graph, recording)
        for graph, recording in zip(graphs, own, strict=True)
    ]
    for name in Taken._fields:
        wanted = torch.cat([getattr(recording, name) for recording in alone])
        torch.testing.assert_close(getattr(together, name), wanted, rtol=1e-5, atol=1e-5)
    values = torch.cat([NETWORK(graph).value for graph in graphs])
    torch.testing.assert_close(scores.value, values, rtol=1e-5, atol=1e-5)
    NETWORK.zero_grad()
    together.log_prob.sum().backward()
    gradient = flat_gradient(NETWORK)
    NETWORK.zero_grad()
    torch.cat([recording.log_prob for recording in alone]).sum().backward()
    torch.testing.assert_close(gradient, flat_gradient(NETWORK), rtol=1e-4, atol=1e-4)


# --- gradients -----------------------------------------------------------------------------------


def loss_of(network: PolicyNetwork, recording: Recording, index: Int64) -> Tensor:
    """A sum over decisions in which every score has a part."""
    scores, taken, rows = again(network, recording, index)
    weight = torch.from_numpy(np.cos(rows)).float()
    return (weight * taken.log_prob + 0.3 * taken.entropy).sum() + 0.1 * scores.value.square().sum()


def gradient_of(network: PolicyNetwork, recording: Recording, chunks: list[Int64]) -> Tensor:
    network.zero_grad()
    for chunk in chunks:
        torch.autograd.backward(loss_of(network, recording, chunk))
    return flat_gradient(network)


def test_gradients_of_chunks_add_up() -> None:
    """In blocks or scattered, an update sees the gradient of all decisions at once."""
    recording, _ = usual()
    network, index = random_network(7), np.arange(count_of(recording))
    whole = gradient_of(network, recording, [index])
    blocks = gradient_of(network, recording, np.array_split(index, 7))
    mixed = np.random.default_rng(0).permutation(index)
    scattered = gradient_of(network, recording, np.array_split(mixed, 11))
    size = float(whole.abs().max())
    torch.testing.assert_close(blocks, whole, rtol=1e-3, atol=1e-5 * size)
    torch.testing.assert_close(scattered, whole, rtol=1e-3, atol=1e-5 * size)


def test_a_rollout_without_a_decision_leaves_no_recording() -> None:
    assert Recorder().finish() is None
