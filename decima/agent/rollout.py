"""Rollouts: many simulations in lockstep under one network, recorded for an update."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from decima.agent.acting import Choices, act
from decima.agent.memory import Memory, Seen
from decima.agent.network import PolicyNetwork
from decima.agent.recording import Recorder, Recording
from decima.agent.scales import Scales
from decima.agent.scene import scene_of_batch
from spark_sim.cluster import Cluster
from spark_sim.tables import State
from spark_sim.vector import Run, VectorSimulator
from traces.arrays import TraceArrays

Float64 = NDArray[np.float64]


class Act(NamedTuple):
    """What is done at one step, and what is recorded as done (a teacher's advice, say)."""

    done: Choices
    recorded: Choices


Chooser = Callable[[VectorSimulator, Seen, Choices], Act]
"""told what the network would do"""


class Lanes(NamedTuple):
    """What is played side by side."""

    trace: TraceArrays
    cluster: Cluster
    runs: Sequence[Run]
    uniform: Sequence[np.random.Generator] | None
    """of each run, for its choices; None takes the likeliest"""


class Rollouts(NamedTuple):
    """B finished rollouts with K decisions in all."""

    recording: Recording
    elapsed_s: Float64  # (K,) from the decision to the lane's next one, or to its end
    states: list[State]  # of each rollout, at its end
    end_s: Float64  # (B,)


class Played(NamedTuple):
    """B finished runs."""

    states: list[State]  # of each, at its end
    policy_cpu_s: float  # deciding, all together
    environment_cpu_s: float  # stepping


_DRAWS = 1024


class Uniforms:
    """Numbers in [0, 1) for each lane, each from its own generator, drawn in blocks."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self._generators = generators
        self._block = np.empty((len(generators), _DRAWS, 2))
        self._next = np.full(len(generators), _DRAWS)

    def take(self, lanes: NDArray[np.bool_]) -> Float64:
        """(B, 2), new ones for the lanes that are marked."""
        for lane in np.flatnonzero(lanes & (self._next == _DRAWS)):
            self._block[lane] = self._generators[int(lane)].random((_DRAWS, 2))
            self._next[lane] = 0
        found: Float64 = self._block[np.arange(len(lanes)), np.minimum(self._next, _DRAWS - 1)]
        self._next[lanes] += 1
        return found


def roll_out(
    network: PolicyNetwork, scales: Scales, lanes: Lanes, chooser: Chooser | None = None
) -> Rollouts:
    """Play every run to its end.

    Args:
        network: who acts, unless a `chooser` overrules it.
        scales: of the workload.
        lanes: the runs.
        chooser: has the last word at each step; None does and records what the network chose.
    """
    simulators = VectorSimulator(lanes.trace, lanes.cluster, lanes.runs)
    jobs_each, _ = simulators.capacity
    recorder = Recorder(jobs_each * len(simulators))
    for seen, choices, memory in _decisions(network, scales, lanes, simulators):
        recorder.take_snapshots(seen, memory.node_x)
        taken = Act(choices, choices) if chooser is None else chooser(simulators, seen, choices)
        with torch.no_grad():
            values = network.values(seen.embeddings, seen.inputs).numpy()
        recorder.take(seen, taken.recorded, values)
        simulators.step(taken.done.stage.astype(np.int32), taken.done.limit.astype(np.int32))
    recording = recorder.finish()
    end_s = simulators.observation().time_ms / 1000.0
    return Rollouts(
        recording,
        _elapsed(recording.decisions.lane, recording.decisions.time_s, end_s),
        [simulators.state(index) for index in range(len(simulators))],
        end_s.copy(),
    )


def play_out(network: PolicyNetwork, scales: Scales, lanes: Lanes) -> Played:
    """Play every run to its end and keep nothing of the decisions.

    A run goes as it would alone, but for rounding: a matrix product of many rows may differ from
    that of one in the last bit, and so may a choice between two that are equally likely.
    """
    began = time.process_time()
    simulators = VectorSimulator(lanes.trace, lanes.cluster, lanes.runs)
    stepping_s = 0.0
    for _, choices, _ in _decisions(network, scales, lanes, simulators):
        stepping = time.process_time()
        simulators.step(choices.stage.astype(np.int32), choices.limit.astype(np.int32))
        stepping_s += time.process_time() - stepping
    deciding_s = time.process_time() - began - stepping_s
    states = [simulators.state(index) for index in range(len(simulators))]
    return Played(states, deciding_s, stepping_s)


def _decisions(
    network: PolicyNetwork, scales: Scales, lanes: Lanes, simulators: VectorSimulator
) -> Iterator[tuple[Seen, Choices, Memory]]:
    """What the network sees and would do at each step, until all runs are over.

    Whoever iterates takes the step.
    """
    jobs_each, stages_each = simulators.capacity
    memory = Memory(network, lanes.trace, scales)
    memory.make_room(jobs_each * len(simulators), stages_each * len(simulators))
    uniforms = None if lanes.uniform is None else Uniforms(lanes.uniform)
    while simulators.alive.any():
        batch = simulators.observation()
        seen = memory.look(scene_of_batch(batch, jobs_each, stages_each))
        drawn = None if uniforms is None else uniforms.take(batch.alive)
        yield seen, act(network, seen, drawn), memory


def _elapsed(lane: NDArray[np.int64], time_s: Float64, end_s: Float64) -> Float64:
    """(K,) seconds to the lane's next decision, or to its end."""
    order = np.argsort(lane, kind="stable")
    until = np.empty(len(lane))
    is_last = np.append(lane[order][1:] != lane[order][:-1], True)
    following = np.append(time_s[order][1:], 0.0)
    until[order] = np.where(is_last, end_s[lane[order]], following)
    elapsed: Float64 = until - time_s
    return elapsed
