"""Networks with random weights on small workloads: what the tests of the learned policy share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from decima.agent.network import PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.scales import Scales
from decima.agent.scorer import Scored
from decima.agent.weights import NetworkConfig
from spark_sim import Action, Cluster, ExecutorClass, Protocol, Simulator, Status, Streams
from spark_sim.vector import Run
from traces import to_arrays, tpch_like
from traces.arrivals import poisson
from traces.estimates import drawn_demands

# Matrices are small: on a busy machine further threads make a decision 50 times as slow.
torch.set_num_threads(1)

TRACE = drawn_demands(
    tpch_like(np.random.default_rng(5), sizes_gb=(2,), queries=6), 1000.0, np.random.default_rng(6)
)
ARRAYS = to_arrays(TRACE)
SCALES = Scales.of(ARRAYS)

CLUSTERS = {
    protocol.label: Cluster(num_executors=8, protocol=protocol, time_limit_ms=400_000.0)
    for protocol in Protocol
}
CLASSES = tuple(ExecutorClass(2, memory_mb=size) for size in (250.0, 500.0, 750.0, 1000.0))
CLUSTERS["classes"] = replace(CLUSTERS["executors"], classes=CLASSES)
each_protocol = pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)

SMALL = NetworkConfig(embedding=6, hidden=(7,), head_hidden=(9, 5))
"""sizes that all differ, so that none can stand for another"""
VARIANTS = {
    "full": SMALL,
    "one level": replace(SMALL, two_level=False),
    "no messages": replace(SMALL, messages=False),
    "no embeddings": replace(SMALL, embeddings=False),
    "no path columns": replace(SMALL, path_columns=False),
    "no limits": replace(SMALL, limit_head=False),
}


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


def batch_run(seed: int, jobs: int = 6) -> Run:
    """All jobs at once."""
    drawn = np.random.default_rng(seed).integers(len(TRACE.jobs), size=jobs).astype(np.int32)
    return Run(np.zeros(jobs), drawn, seed)


RUNS = [run_of(1), run_of(2, jobs=6), run_of(3, jobs=1), run_of(4, time_limit_ms=60_000.0)]
"""of which one is over long before the others and one is cut off"""


def simulator_of(run: Run, cluster: Cluster) -> Simulator:
    """The same run alone."""
    if run.time_limit_ms is not None:
        cluster = replace(cluster, time_limit_ms=run.time_limit_ms)
    return Simulator(ARRAYS, cluster, run.arrival_ms, run.job, duration_key=run.duration_key)


def played(
    policy: LearnedPolicy, simulator: Simulator, most: int | None = None
) -> Iterator[tuple[Scored, Action]]:
    """Each choice of a run of `ARRAYS`: the scores when it was due, and what was then done."""
    count = 0
    while simulator.status is Status.DECIDE and count != most:
        observation = simulator.observation()
        scored = policy.score(observation)
        action = policy.decide(observation)
        yield scored, action
        simulator.step(action)
        count += 1
