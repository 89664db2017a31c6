"""Networks with random weights on small workloads: what the tests of the learned policy share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from decima.agent.acting import Choices, act

from decima.agent.memory import Seen
from decima.agent.network import NetworkConfig, PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.rollout import Lanes, Rollouts, roll_out
from decima.agent.scales import Scales
from spark_sim import PASS, Action, Cluster, Protocol, Simulator, Status, Streams
from spark_sim.tables import NONE
from spark_sim.vector import Run
from traces import to_arrays, tpch_like
from traces.arrivals import poisson

# Matrices are small: on a busy machine further threads make a decision 50 times as slow.
torch.set_num_threads(1)

TRACE = tpch_like(np.random.default_rng(5), sizes_gb=(2,), queries=6)
ARRAYS = to_arrays(TRACE)
SCALES = Scales.of(ARRAYS)

CLUSTERS = {
    protocol.label: Cluster(num_executors=8, protocol=protocol, time_limit_ms=400_000.0)
    for protocol in Protocol
}
each_protocol = pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)

SMALL = NetworkConfig(embedding=6, hidden=(7,), head_hidden=(9, 5))
"""sizes that all differ, so that none can stand for another"""
VARIANTS = {
    "full": SMALL,
    "one level": replace(SMALL, two_level=False),
    "no messages": replace(SMALL, messages=False),
    "no embeddings": replace(SMALL, embeddings=False),
    "no limits": replace(SMALL, limit_head=False),
    "never idle": replace(SMALL, may_idle=False),
    "may starve": replace(SMALL, always_one=False),
}
each_variant = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)


def random_network(seed: int = 0, config: NetworkConfig = SMALL) -> PolicyNetwork:
    """Every weight drawn, the last layers' too, so that no two choices are equally likely."""
    network = PolicyNetwork(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            scale = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.3
            parameter.normal_(0.0, scale, generator=generator)
    return network


def run_of(seed: int, jobs: int = 5, time_limit_ms: float | None = None) -> Run:
    """A Poisson sequence of its own."""
    streams = Streams(seed, 0)
    drawn = poisson(TRACE, jobs, 15_000.0, streams.arrivals())
    return Run(drawn.arrival_ms, drawn.job, streams.duration_key(), time_limit_ms)


def simulator_of(run: Run, cluster: Cluster) -> Simulator:
    """The same run alone."""
    if run.time_limit_ms is not None:
        cluster = replace(cluster, time_limit_ms=run.time_limit_ms)
    return Simulator(ARRAYS, cluster, run.arrival_ms, run.job, duration_key=run.duration_key)


def generators(seed: int, count: int) -> list[np.random.Generator]:
    """One for each of so many runs."""
    return [np.random.default_rng([seed, number]) for number in range(count)]


def sampled(network: PolicyNetwork, cluster: Cluster, runs: list[Run], seed: int = 0) -> Rollouts:
    """The runs side by side, actions drawn."""
    lanes = Lanes(ARRAYS, cluster, runs, generators(seed, len(runs)))
    return roll_out(network, SCALES, lanes)


def action_of(choices: Choices) -> Action:
    """The only choice, as the simulator takes it."""
    stage = int(choices.stage[0])
    return PASS if stage == NONE else Action(stage, int(choices.limit[0]))


def decisions(
    network: PolicyNetwork, simulator: Simulator, rng: np.random.Generator | None
) -> Iterator[tuple[Seen, Choices]]:
    """Each decision of a run of `ARRAYS` and what the network makes of it, before it is taken."""
    policy = LearnedPolicy(network, ARRAYS)
    while simulator.status is Status.DECIDE:
        seen = policy.look(simulator.observation())
        choices = act(network, seen, None if rng is None else rng.random((1, 2)))
        yield seen, choices
        simulator.step(action_of(choices))


def test_random_networks_prefer_some_choices() -> None:
    """A new network finds all choices equally likely, so most tests could not fail with one."""
    prefers: dict[str, bool] = {}
    for label, network in (("random", random_network()), ("new", PolicyNetwork(SMALL))):
        rollouts = sampled(network, CLUSTERS["executors"], [run_of(1)])
        kept = rollouts.recording.decisions
        equal = -np.log((kept.num_open + kept.may_pass) * np.maximum(kept.room, 1))
        prefers[label] = not np.allclose(kept.log_prob, equal)
    assert prefers == {"random": True, "new": False}
