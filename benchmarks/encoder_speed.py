"""What the graph encoder costs: one job, all jobs of a trace at once, and against the reference.

    python -m benchmarks.encoder_speed [--trace tpch]

CPU microseconds of one process with one torch thread, best of several rounds. *few* is
`Encoder.embed` in compiled code, *many* the same with torch's matrix products; where they meet lies
`gnn.encoder.FEW_NODES`. The reference is `gnn.reference`, PyTorch Geometric message passing over
the whole graph once a level, stages alone. Below, the same of all heads of the shipped network, in
batches of jobs that all wait: limits scored; they meet at `decima.agent.scores.FEW_ROWS`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import torch
from decima.agent.scores import Embeddings
from gnn.reference import ReferenceEncoder
from torch import Tensor

from decima.agent.model import load_model
from decima.agent.policy import LearnedPolicy
from decima.policies import model_path
from gnn.encoder import Encoder, EncoderConfig
from gnn.levels import levels_of
from spark_sim import Cluster, Simulator
from traces import load_trace, to_arrays
from traces.arrays import TraceArrays

FEATURES = 5
ROUNDS = 7
REPEATS = 20
WAITING = (1, 3, 10, 20, 40, 80)


def graph_of(arrays: TraceArrays, jobs: range) -> tuple[Tensor, int]:
    """(2, E) edges parent, child of several jobs as one graph, and its number of nodes."""
    begin = int(arrays.first_stage[jobs.start])
    parents, children = [], []
    for job in jobs:
        first = int(arrays.first_stage[job])
        for stage in range(first, int(arrays.first_stage[job + 1])):
            for edge in range(int(arrays.first_child[stage]), int(arrays.first_child[stage + 1])):
                parents.append(stage - begin)
                children.append(first + int(arrays.children[edge]) - begin)
    edges = torch.tensor([parents, children], dtype=torch.int64)
    return edges, int(arrays.first_stage[jobs.stop]) - begin


def cpu_us(work: Callable[[], object]) -> float:
    """CPU microseconds of one call, the best of `ROUNDS`."""
    work()
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(REPEATS):
            work()
        best = min(best, (time.process_time() - began) / REPEATS)
    return best * 1e6


def measure(label: str, edges: Tensor, nodes: int) -> None:
    """Print one line: sorting into levels, embedding, and the reference's embedding."""
    torch.manual_seed(0)
    encoder = Encoder(FEATURES, EncoderConfig())
    reference = ReferenceEncoder(encoder)
    levels, order = levels_of(edges, nodes)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(nodes, FEATURES))).float()
    sorted_x = x[order]
    with torch.no_grad():
        sort_us = cpu_us(lambda: levels_of(edges, nodes))
        job = torch.zeros(nodes, dtype=torch.int64)
        us = []
        for most in (nodes, 0):
            with patch("gnn.encoder.FEW_NODES", most):
                us.append(cpu_us(lambda: encoder.embed(sorted_x, levels, job, 1)))
        reference_us = cpu_us(lambda: reference.nodes(x, edges))
    print(
        f"{label:24} {nodes:6,} {levels.num_levels:7} {sort_us:10,.0f} {us[0]:10,.0f} "
        f"{us[1]:10,.0f} {reference_us:10,.0f}"
    )


def measure_heads(arrays: TraceArrays, jobs: int) -> None:
    """Print one line: all heads of a decision, in compiled code and with torch."""
    network = load_model(model_path("decima")).network
    drawn = np.random.default_rng(jobs).integers(arrays.num_jobs, size=jobs).astype(np.int32)
    simulator = Simulator(
        arrays, Cluster(num_executors=50), np.zeros(jobs), drawn, duration_key=jobs
    )
    graph = LearnedPolicy(network, arrays).look(simulator.observation()).graph
    size = network.config.embedding
    rows = (len(graph.stage_x), len(graph.job_x), len(graph.cluster_x))
    kept = Embeddings(*(torch.randn(count, size) for count in rows))
    us = []
    with torch.no_grad():
        for most in (len(graph.limit_x), 0):
            with patch("decima.agent.scores.FEW_ROWS", most):
                us.append(cpu_us(lambda: network(graph, kept)))
    print(
        f"{f'heads, {jobs} jobs':24} {len(graph.limit_x):6,} {'':7} {'':10} "
        f"{us[0]:10,.0f} {us[1]:10,.0f}"
    )


def main() -> None:
    """Time the deepest job alone and all jobs together, and the heads."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trace", default="tpch")
    trace = load_trace(parser.parse_args().trace)
    torch.set_num_threads(1)
    arrays = to_arrays(trace)
    depth = [levels_of(*graph_of(arrays, range(job, job + 1)))[0].num_levels
             for job in range(arrays.num_jobs)]  # fmt: skip
    deepest = int(np.argmax(depth))
    print(f"{'':24} {'nodes':>6} {'levels':>7} {'sort us':>10} {'few us':>10} "
          f"{'many us':>10} {'reference':>10}")  # fmt: skip
    measure(trace.jobs[deepest].name, *graph_of(arrays, range(deepest, deepest + 1)))
    for jobs in sorted({min(jobs, arrays.num_jobs) for jobs in (8, 32, 64, arrays.num_jobs)}):
        measure(f"{jobs} jobs", *graph_of(arrays, range(jobs)))
    for jobs in WAITING:
        measure_heads(arrays, jobs)


if __name__ == "__main__":
    main()
