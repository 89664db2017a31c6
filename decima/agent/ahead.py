"""Compile the network's kernels in a second process, while this one compiles the simulator's and
runs the first heuristics.
"""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path

import numpy as np

from decima.agent.kernels import AGENT
from decima.agent.scales import Scales
from decima.agent.scorer import Scorer
from decima.agent.weights import NetworkConfig, unflattened, weight_shapes
from decima.rl.parallel.module import begin_module
from spark_sim.batch import batch_of
from spark_sim.cluster import Cluster
from spark_sim.compiled.cache import trusted_folder
from spark_sim.setup import build_state
from traces import load_trace
from traces.arrays import to_arrays


def compile_ahead() -> None:
    """Start that process if none of these kernels is cached and there is a core for it.

    A process that needs a kernel which another one compiles waits for it (`Turns`).
    """
    if len(os.sched_getaffinity(0)) < 2:
        return
    try:
        folder = Path(AGENT.folder)
    except (OSError, RuntimeError):  # nothing can be cached: see `Kernels`
        return
    if folder.exists() or trusted_folder(folder) is None:
        return
    silent = subprocess.DEVNULL
    begin_module(__name__, stdin=silent, stdout=silent, stderr=silent)


def _plan() -> None:
    """Plan for a cluster where no job has arrived, by a network of zeros: only types matter."""
    trace = to_arrays(load_trace("random-dag"))
    config = NetworkConfig()
    size = sum(math.prod(shape) for shape in weight_shapes(config).values())
    network = unflattened(config, np.zeros(size, np.float32))
    job, arrival_ms = np.zeros(1, np.int32), np.zeros(1)
    state = build_state(trace, Cluster(), arrival_ms, job, 0, timeline=False)
    scorer = Scorer(network, trace, Scales.of(trace))
    scorer.plan(batch_of([state]), np.zeros(1, np.int64), None)


if __name__ == "__main__":
    _plan()
