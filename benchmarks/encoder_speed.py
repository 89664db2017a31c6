"""Cost of the forward pass: message passing with torch, and compiled for acting.

    python -m benchmarks.encoder_speed [--trace tpch]

CPU microseconds of one process with one torch thread, best of several rounds. *levels* sorts the
nodes by height, *torch* is `Encoder.nodes`, `jobs` and `cluster`. Below, a whole decision in
batches of jobs that all wait: `PolicyNetwork.forward` of all of them, `Scorer.look` where all have
changed, and where none has.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from decima.agent import columns
from decima.agent.graph import GraphSorter, whole_graph
from decima.agent.network import PolicyNetwork
from decima.agent.scales import Scales
from decima.agent.scene import Scene, scene_of
from decima.agent.scorer import Scorer
from decima.agent.weights import NetworkConfig
from gnn.encoder import Encoder
from gnn.levels import levels_of
from spark_sim import Cluster, Simulator
from traces import load_trace, to_arrays
from traces.arrays import TraceArrays

ROUNDS = 7
REPEATS = 20
WAITING = (1, 3, 10, 30, 100, 300)


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


def measure(label: str, edges: Tensor, nodes: int, encoder: Encoder) -> None:
    """Print one line: sorting into levels, and embedding with torch."""
    levels, order = levels_of(edges, nodes)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(nodes, len(columns.NODE)))).float()
    x, job = x[order], torch.zeros(nodes, dtype=torch.int64)
    one = torch.zeros((2, 1), dtype=torch.int64)

    def embed() -> None:
        y = encoder.jobs(x, encoder.nodes(x, levels), job, 1)
        encoder.cluster(y, one, 1)

    with torch.no_grad():
        sort_us = cpu_us(lambda: levels_of(edges, nodes))
        torch_us = cpu_us(embed)
    print(f"{label:24} {nodes:6,} {levels.num_levels:7} {sort_us:10,.0f} {torch_us:10,.0f}")


def measure_decision(network: PolicyNetwork, arrays: TraceArrays, jobs: int) -> None:
    """Print one line: all scores of a decision, with torch and compiled."""
    scene = _waiting(arrays, jobs)
    sorter, scales = GraphSorter(arrays), Scales.of(arrays)
    scorer = Scorer(network, arrays, scales)
    scorer.make_room(len(scene.jobs), len(scene.stages))

    def look_anew() -> None:
        scorer.forget()
        scorer.look(scene)

    def forward() -> None:
        network(whole_graph(scene, sorter, scales)[0])

    with torch.no_grad():
        found = [cpu_us(work) for work in (forward, look_anew, lambda: scorer.look(scene))]
    print(f"{f'decision, {jobs} jobs':24} " + " ".join(f"{one:10,.0f}" for one in found))


def _waiting(arrays: TraceArrays, jobs: int) -> Scene:
    drawn = np.random.default_rng(jobs).integers(arrays.num_jobs, size=jobs).astype(np.int32)
    simulator = Simulator(
        arrays, Cluster(num_executors=50), np.zeros(jobs), drawn, duration_key=jobs
    )
    return scene_of(simulator.observation())


def main() -> None:
    """Time the deepest job alone, jobs together, and whole decisions."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trace", default="tpch")
    trace = load_trace(parser.parse_args().trace)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = PolicyNetwork(NetworkConfig()).eval()
    arrays = to_arrays(trace)
    depth = [levels_of(*graph_of(arrays, range(job, job + 1)))[0].num_levels
             for job in range(arrays.num_jobs)]  # fmt: skip
    deepest = int(np.argmax(depth))
    print(f"{'':24} {'nodes':>6} {'levels':>7} {'levels us':>10} {'torch us':>10}")
    alone = graph_of(arrays, range(deepest, deepest + 1))
    measure(trace.jobs[deepest].name, *alone, network.encoder)
    for jobs in sorted({min(jobs, arrays.num_jobs) for jobs in (8, 64, arrays.num_jobs)}):
        measure(f"{jobs} jobs", *graph_of(arrays, range(jobs)), network.encoder)
    print(f"{'':24} {'torch us':>10} {'all new us':>10} {'known us':>10}")
    for jobs in WAITING:
        measure_decision(network, arrays, jobs)


if __name__ == "__main__":
    main()
