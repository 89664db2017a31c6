"""Compile kernels in other processes, while this one compiles others and runs the first policy.

A process that needs a kernel which another one compiles waits for it (`Turns`).
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from decima.heuristics.run import HEURISTICS, load, load_run, number_of
from decima.policy_names import is_learned
from decima.rl.parallel.module import begin_module
from spark_sim.cluster import Cluster, Protocol
from spark_sim.compile import SIMULATOR
from spark_sim.compiled.cache import trusted_folder
from spark_sim.compiled.kernels import Kernels
from spark_sim.kernels import dispatch

_NETWORK, _CHOICES = "network", "choices"


def compile_ahead(policies: Iterable[str], protocol: Protocol | None = None) -> None:
    """Start a process for the network's kernels, if a policy is learned, and one for those that
    apply a choice and make it under a protocol, as far as there are cores.

    Each only if nothing of its kind is cached yet, but can be.
    """
    names = list(policies)
    processes: list[tuple[Kernels, list[str]]] = []
    if any(is_learned(name) for name in names):
        from decima.agent.kernels import AGENT

        processes.append((AGENT, [_NETWORK]))
    heuristics = [name for name in names if name in HEURISTICS]
    if heuristics and protocol is not None:
        processes.append((SIMULATOR, [_CHOICES, str(int(protocol)), *heuristics]))
    silent = subprocess.DEVNULL
    others = len(os.sched_getaffinity(0)) - 1
    for kernels, arguments in processes[:others]:
        if _is_to_compile(kernels):
            begin_module(__name__, *arguments, stdin=silent, stdout=silent, stderr=silent)


def _is_to_compile(kernels: Kernels) -> bool:
    """Return whether the folder of these kernels does not exist yet, but can be made."""
    try:
        folder = Path(kernels.folder)
    except (OSError, RuntimeError):  # nothing can be cached: see `Kernels`
        return False
    return not folder.exists() and trusted_folder(folder) is not None


def _compile_network() -> None:
    """Plan for a cluster where no job has arrived, by a network of zeros: only types matter."""
    from decima.agent.scales import Scales
    from decima.agent.scorer import Scorer
    from decima.agent.weights import NetworkConfig, unflattened, weight_shapes
    from spark_sim.batch import batch_of
    from spark_sim.setup import build_state
    from traces import load_trace
    from traces.arrays import to_arrays

    trace = to_arrays(load_trace("random-dag"))
    config = NetworkConfig()
    size = sum(math.prod(shape) for shape in weight_shapes(config).values())
    network = unflattened(config, np.zeros(size, np.float32))
    job, arrival_ms = np.zeros(1, np.int32), np.zeros(1)
    state = build_state(trace, Cluster(), arrival_ms, job, 0, timeline=False)
    scorer = Scorer(network, trace, Scales.of(trace))
    scorer.plan(batch_of([state]), np.zeros(1, np.int64), None)


def _compile_choices(protocol: int, names: Iterable[str]) -> None:
    """Compile what a first run needs after the events (`advance`), which it compiles meanwhile."""
    dispatch.load_assign(protocol)
    for name in names:
        load(number_of(name))
    load_run()


if __name__ == "__main__":
    if sys.argv[1] == _NETWORK:
        _compile_network()
    else:
        _compile_choices(int(sys.argv[2]), sys.argv[3:])
