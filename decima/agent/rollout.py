"""Rollouts: many simulations in lockstep under one network, or under one each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent import plans
from decima.agent.plans import Plans
from decima.agent.scales import Scales
from decima.agent.scorer import Scored, Scorer
from decima.agent.weights import Network
from spark_sim.cluster import Cluster
from spark_sim.tables import State
from spark_sim.vector import Run, VectorSimulator
from traces.arrays import TraceArrays


class Lanes(NamedTuple):
    """Simulations that are played side by side."""

    trace: TraceArrays
    cluster: Cluster
    runs: Sequence[Run]
    keys: NDArray[np.uint64] | None
    """(B,) of each run, random bits for its plans; None takes the likeliest"""


class Step(NamedTuple):
    """One plan of each simulation."""

    scored: Scored
    plans: Plans  # plans as drawn; the step determines how many entries are used


class Played(NamedTuple):
    """B finished runs."""

    states: list[State]  # of each, at its end
    policy_cpu_s: float  # deciding, all together
    environment_cpu_s: float  # stepping


class Lockstep:
    """Iterator over observations and plans, step by step, until all runs end.

    The caller takes each step, by `simulators.follow`.
    """

    def __init__(self, network: Network | Sequence[Network], scales: Scales, lanes: Lanes) -> None:
        """One network plays all lanes, or several of equal sizes one each."""
        if isinstance(network, Sequence) and len(network) != len(lanes.runs):
            raise ValueError(f"{len(network)} networks cannot play {len(lanes.runs)} lanes")
        self.simulators = VectorSimulator(lanes.trace, lanes.cluster, lanes.runs)
        self.scorer = Scorer(network, lanes.trace, scales)
        self._keys = lanes.keys

    def __iter__(self) -> Iterator[Step]:
        simulators = self.simulators
        self.scorer.make_room(*simulators.capacity, len(simulators))
        lanes = np.arange(len(simulators))
        count = np.zeros(len(simulators), np.uint64)
        while simulators.alive.any():
            keys = None if self._keys is None else plans.key_of(self._keys, count)
            step = Step(*self.scorer.plan(simulators.observation(), lanes, keys))
            count += step.scored.observation.alive
            yield step

    def states(self) -> list[State]:
        """The tables of each run."""
        return [self.simulators.state(index) for index in range(len(self.simulators))]


def play_out(network: Network | Sequence[Network], scales: Scales, lanes: Lanes) -> Played:
    """Play every run to its end without recording decisions.

    One network plays all lanes, or several of equal sizes one each.

    Runs are as they would be alone but for rounding: a product of many rows may differ in the last
    bit, and so may the choice between two equally likely ones.
    """
    began = time.process_time()
    stepping_s = 0.0
    lockstep = Lockstep(network, scales, lanes)
    for step in lockstep:
        wanted = plans.preferences(step.plans, step.scored.choices)
        stepping = time.process_time()
        lockstep.simulators.follow(wanted)
        stepping_s += time.process_time() - stepping
    deciding_s = time.process_time() - began - stepping_s
    return Played(lockstep.states(), deciding_s, stepping_s)
