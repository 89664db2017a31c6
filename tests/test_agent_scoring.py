"""Recorded decisions scored again: the numbers that acting found, in any cut, with gradients."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import torch
from decima.agent.scoring import Scorer, segment_log_softmax
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from decima.agent.memory import GraphSorter
from decima.agent.network import NetworkConfig, PolicyNetwork
from decima.agent.recording import Recording
from decima.agent.rollout import Lanes, roll_out
from rl.optimiser import flat_gradient
from spark_sim import Cluster
from tests.test_agent_support import (
    ARRAYS,
    CLUSTERS,
    SCALES,
    SMALL,
    each_protocol,
    each_variant,
    random_network,
    run_of,
    sampled,
)

RUNS = [run_of(1), run_of(2, jobs=6), run_of(3, jobs=1), run_of(4, time_limit_ms=60_000.0)]
NETWORK = random_network(7)


@lru_cache
def recorded() -> Recording:
    """What `NETWORK` did on `RUNS`, actions drawn."""
    return sampled(NETWORK, CLUSTERS["executors"], RUNS).recording


def count_of(recording: Recording) -> int:
    return len(recording.decisions.lane)


def scorer_of(network: PolicyNetwork, recording: Recording) -> Scorer:
    return Scorer(network, GraphSorter(ARRAYS), recording)


def everything(recording: Recording) -> NDArray[np.int64]:
    return np.arange(count_of(recording))


def assert_as_acted(network: PolicyNetwork, recording: Recording) -> None:
    """Log-probabilities and values to 1e-5."""
    scores = scorer_of(network, recording).score(everything(recording))
    kept = recording.decisions
    np.testing.assert_allclose(scores.log_prob.detach().numpy(), kept.log_prob, atol=1e-5)
    np.testing.assert_allclose(scores.value.detach().numpy(), kept.value, atol=1e-5)


# --- the numbers of acting -----------------------------------------------------------------------


@each_variant
def test_scores_are_those_of_acting(config: NetworkConfig) -> None:
    """Log-probability and value of every action drawn, for each part that can be left out."""
    network = random_network(7, config)
    recording = sampled(network, CLUSTERS["executors"], RUNS).recording
    assert count_of(recording) > 100
    assert_as_acted(network, recording)


@each_protocol
def test_scores_are_those_of_acting_under_each_protocol(cluster: Cluster) -> None:
    """Slots that come back after every task, promised executors: the record holds what counts."""
    assert_as_acted(NETWORK, sampled(NETWORK, cluster, RUNS[:3]).recording)


def test_scores_of_the_likeliest_actions() -> None:
    """They are recorded with their probability, not as certain."""
    lanes = Lanes(ARRAYS, CLUSTERS["executors"], RUNS, None)
    recording = roll_out(NETWORK, SCALES, lanes).recording
    assert_as_acted(NETWORK, recording)
    assert recording.decisions.log_prob.min() < -1.0


def test_other_weights_give_other_scores() -> None:
    """The scorer looks at the network's present weights."""
    scores = scorer_of(random_network(8), recorded()).score(everything(recorded()))
    difference = scores.log_prob.detach().numpy() - recorded().decisions.log_prob
    assert np.abs(difference).max() > 0.1


@given(seed=st.integers(0, 10**6), parts=st.integers(1, 40))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_scores_do_not_depend_on_the_cut(seed: int, parts: int) -> None:
    """Any decisions in any order: each has the score that it has among all."""
    recording = recorded()
    scorer = scorer_of(NETWORK, recording)
    chosen = np.random.default_rng(seed).permutation(count_of(recording))[: 4 * parts]
    with torch.no_grad():
        for chunk in np.array_split(chosen, min(parts, len(chosen))):
            scores = scorer.score(chunk)
            kept = recording.decisions
            np.testing.assert_allclose(scores.log_prob, kept.log_prob[chunk], atol=1e-5)
            np.testing.assert_allclose(scores.value, kept.value[chunk], atol=1e-5)


def test_a_decision_may_be_scored_twice_at_once() -> None:
    """As when minibatches are drawn with replacement."""
    with torch.no_grad():
        scores = scorer_of(NETWORK, recorded()).score(np.array([5, 9, 5, 5]))
    np.testing.assert_allclose(
        scores.log_prob, recorded().decisions.log_prob[[5, 9, 5, 5]], atol=1e-5
    )


# --- entropy -------------------------------------------------------------------------------------


@each_variant
def test_entropy_is_a_share_of_the_greatest(config: NetworkConfig) -> None:
    """Between 0 and 1, and neither everywhere."""
    network = random_network(7, config)
    recording = sampled(network, CLUSTERS["executors"], RUNS[:2]).recording
    with torch.no_grad():
        entropy = scorer_of(network, recording).score(everything(recording)).entropy.numpy()
    assert entropy.min() >= 0.0
    assert entropy.max() <= 1.0 + 1e-6
    assert 0.05 < entropy.mean() < 0.999


def test_entropy_of_equal_choices_is_one() -> None:
    """A new network finds all equally likely; with a single choice there is none to have."""
    network = PolicyNetwork(SMALL)
    recording = sampled(network, CLUSTERS["executors"], RUNS).recording
    with torch.no_grad():
        entropy = scorer_of(network, recording).score(everything(recording)).entropy.numpy()
    kept = recording.decisions
    single = (kept.num_open + kept.may_pass == 1) & (kept.room <= 1)
    assert 0 < single.sum() < len(single)
    np.testing.assert_allclose(entropy, np.where(single, 0.0, 1.0), atol=1e-6)


def test_log_softmax_by_hand() -> None:
    """Logits log 1, log 3 | log 2, never, log 2 | 5: shares 1/4, 3/4 | 1/2, 0, 1/2 | 1."""
    logits = torch.tensor([1.0, 3.0, 2.0, 0.0, 2.0]).log()
    owner = torch.tensor([0, 0, 1, 1, 1, 2])
    log_prob, entropy = segment_log_softmax(torch.cat((logits, torch.tensor([5.0]))), owner, 3)
    torch.testing.assert_close(
        log_prob.exp(), torch.tensor([0.25, 0.75, 0.5, 0.0, 0.5, 1.0]), rtol=0.0, atol=1e-6
    )
    expected = [0.25 * np.log(4) + 0.75 * np.log(4 / 3), np.log(2), 0.0]
    np.testing.assert_allclose(entropy, expected, atol=1e-6)


def test_log_softmax_of_large_logits_and_of_what_never_happens_has_gradients() -> None:
    """Neither exp(1000) nor -inf x 0 turns up as a number that is none."""
    logits = torch.tensor([1000.0, 990.0, -torch.inf, -1000.0, -torch.inf], requires_grad=True)
    log_prob, entropy = segment_log_softmax(logits, torch.tensor([0, 0, 0, 1, 1]), 2)
    (log_prob[[0, 1, 3]].sum() + entropy.sum()).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())
    assert log_prob[1].item() == pytest.approx(-10.0, abs=1e-3)


# --- gradients -----------------------------------------------------------------------------------


def loss_of(network: PolicyNetwork, recording: Recording, index: NDArray[np.int64]) -> Tensor:
    """A sum over decisions in which every score has a part."""
    scores = scorer_of(network, recording).score(index)
    weight = torch.from_numpy(np.cos(index)).float()
    return (weight * scores.log_prob + 0.3 * scores.entropy + 0.1 * scores.value**2).sum()


def gradient_of(
    network: PolicyNetwork, recording: Recording, chunks: list[NDArray[np.int64]]
) -> Tensor:
    network.zero_grad()
    for chunk in chunks:
        torch.autograd.backward(loss_of(network, recording, chunk))
    return flat_gradient(network)


def test_gradients_of_chunks_add_up() -> None:
    """In blocks or scattered, an update sees the gradient of all decisions at once."""
    network, index = random_network(7), everything(recorded())
    whole = gradient_of(network, recorded(), [index])
    blocks = gradient_of(network, recorded(), np.array_split(index, 7))
    mixed = np.random.default_rng(0).permutation(index)
    scattered = gradient_of(network, recorded(), np.array_split(mixed, 11))
    size = float(whole.abs().max())
    torch.testing.assert_close(blocks, whole, rtol=1e-3, atol=1e-5 * size)
    torch.testing.assert_close(scattered, whole, rtol=1e-3, atol=1e-5 * size)


@each_variant
def test_gradients_are_finite_and_reach_every_part_in_use(config: NetworkConfig) -> None:
    """Also where passing is impossible; parts that are left out get none."""
    network = random_network(7, config)
    recording = sampled(network, CLUSTERS["executors"], RUNS[:2]).recording
    gradient_of(network, recording, [everything(recording)])
    reached = {
        name.partition(".")[0]
        for name, parameter in network.named_parameters()
        if parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
    }
    assert bool(flat_gradient(network).isfinite().all())
    expected = {"encoder", "stage_head", "limit_head", "pass_head", "value_head"}
    expected -= set() if config.embeddings else {"encoder"}
    expected -= set() if config.limit_head else {"limit_head"}
    expected -= set() if config.may_idle else {"pass_head"}
    assert reached == expected
