"""Fingerprint of code, libraries and results that must agree on all machines of a computation.

`decima.rl.parallel.greeting` requests it from every executor. The first process of a host compiles
the kernels; others of that host wait for it and load them.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from numpy.typing import NDArray

from decima.agent.columns import FEATURE_VERSION
from decima.agent.kernels import AGENT
from traces import Job, LevelDurations, Stage, Trace, to_arrays

_LIBRARIES = ("numpy", "numba", "torch", "pyarrow")
_OURS = "decima-scheduler"
_DECIMALS = 2
"""decimals that are hashed, in milliseconds and logits: far above the last bits in which processors
of different kinds differ, far below the differences of another version of the code"""


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of this package, its source, Python and the numerical libraries."""
    return {
        _OURS: _version(_OURS),
        "sources of kernels": AGENT.fingerprint(),
        "feature version": str(FEATURE_VERSION),
        "Python": platform.python_version(),
        # Builds for another device (2.13.0+cpu) compute the same on the processor.
        **{name: _version(name).partition("+")[0] for name in _LIBRARIES},
    }


@cache
def fingerprint() -> Mapping[str, str]:
    """`versions`, and a digest of what the kernels and the shipped network make of a few jobs."""
    values = np.concatenate([*played()])
    return {**versions(), "computed": digest(values)}


def digest(values: NDArray[np.float64]) -> str:
    """Sixteen hex digits over rounded numbers."""
    rounded = np.round(values, _DECIMALS) + 0.0  # no negative zero
    return hashlib.sha256(rounded.tobytes()).hexdigest()[:16]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def played() -> Iterator[NDArray[np.float64]]:
    """Yield completion times under a fitted rule and under the network, and its first logits."""
    # The agent takes a second to load, and `versions` does not need it.
    from decima.agent import plans
    from decima.agent.rollout import Lanes, Lockstep
    from decima.agent.scales import Scales
    from decima.learned import load
    from decima.policy_names import SHIPPED_MODEL
    from decima.registry import Heuristic
    from spark_sim import Cluster, Simulator
    from spark_sim.vector import Run

    arrays = to_arrays(_trace())
    cluster = Cluster(num_executors=5)
    arrival_ms = np.array([0.0, 0.0, 900.0, 2_500.0])
    job = np.array([0, 1, 2, 0], np.int32)
    rule = Heuristic("es_rule")
    simulator = Simulator(arrays, cluster, arrival_ms, job, duration_key=7)
    rule.play(simulator)
    yield simulator.state.jobs["completion_ms"]
    lanes = Lanes(arrays, cluster, [Run(arrival_ms, job, 7), Run(arrival_ms, job, 8)], None)
    lockstep = Lockstep(load(SHIPPED_MODEL), Scales.of(arrays), lanes)
    for number, step in enumerate(lockstep):
        wanted = plans.preferences(step.plans, step.scored.choices)
        if number == 0:
            yield np.concatenate([part.astype(np.float64)[:4] for part in step.scored.scores])
        lockstep.simulators.follow(wanted)
    for state in lockstep.states():
        yield state.jobs["completion_ms"]


def _trace() -> Trace:
    """Build three jobs: a diamond, a chain and a single stage, with odd durations."""

    def stage(name: str, tasks: int, task_ms: float, parents: tuple[int, ...] = ()) -> Stage:
        spread = task_ms * (1 + 0.37 * np.sin(np.arange(1, 12)))
        levels = (
            LevelDurations.of(n, fresh_ms=1.9 * spread, first_ms=1.2 * spread, rest_ms=spread)
            for n in (2, 5)
        )
        return Stage(name, tasks, parents, tuple(levels))

    diamond = (
        stage("a", 5, 310.7),
        stage("b", 3, 120.3, (0,)),
        stage("c", 7, 95.1, (0,)),
        stage("d", 1, 402.7, (1, 2)),
    )
    chain = (stage("a", 9, 77.7), stage("b", 2, 530.1, (0,)))
    jobs = (Job("diamond", diamond), Job("chain", chain), Job("one", (stage("a", 4, 222.2),)))
    return Trace("fingerprint", jobs)
