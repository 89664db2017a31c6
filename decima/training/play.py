"""Playing a shard's episodes: on-policy rollouts, and plans that are tried from their states."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from decima.agent import plans
from decima.agent.graph import GraphSorter
from decima.agent.network import PolicyNetwork
from decima.agent.plans import Plans
from decima.agent.recording import Recorder, Recording
from decima.agent.rollout import Lanes, Lockstep, Step
from decima.agent.scales import Scales
from decima.heuristics.es_classes import ALL_PARAMETERS
from decima.policies import Heuristic
from decima.training.config import TrainConfig
from decima.training.costs import cost_at
from decima.training.credit import Finished, of_branches, of_returns
from decima.training.episodes import Episode, played
from spark_sim import Streams
from spark_sim.kernels.choices import Preferences
from spark_sim.tables import State
from spark_sim.vector import VectorSimulator
from traces.arrays import TraceArrays
from traces.numbers import MS_PER_S, Float64, Int64

_STATES_STREAM = 12
USUAL_DECISIONS = 400
"""of an episode; one with four times as many gives half as many states"""


class Batch(NamedTuple):
    """The episodes of one setting: what was recorded, and the credit of its plans."""

    sorter: GraphSorter
    recording: Recording
    advantage: Float64  # (Q,)
    target: Float64  # (Q,)
    reward: float  # sum over all rollouts
    states: list[State]  # of each rollout, at its end


class Player:
    """Plays episodes of one trace under a network, and assigns credit."""

    def __init__(self, config: TrainConfig, arrays: TraceArrays, sorter: GraphSorter) -> None:
        self._config = config
        self._arrays = arrays
        self._scales = Scales.of(arrays)
        self._sorter = sorter

    def play(
        self, network: PolicyNetwork, episodes: list[Episode], rate: float, iteration: int
    ) -> Batch | None:
        """Episodes of one setting; None if they held no decision.

        Args:
            network: draws the plans.
            episodes: of the setting.
            rate: average reward a second so far.
            iteration: of the training.
        """
        if self._config.credit.method == "branches":
            return self._play_branches(network, episodes, iteration)
        return self._play_returns(network, episodes, rate)

    def _play_branches(
        self, network: PolicyNetwork, episodes: list[Episode], iteration: int
    ) -> Batch | None:
        """Each episode once, by the likeliest plans: so others are tried from the states that the
        policy will meet.
        """
        brancher = Brancher(self._config, network, self._arrays, episodes, iteration)
        lockstep = Lockstep(network, self._scales, self._lanes(episodes, None))
        simulators = lockstep.simulators
        recorder = Recorder(simulators.capacity[0] * len(simulators))
        costs: list[Float64] = []
        for step in lockstep:
            recorder.take_snapshots(step.seen, lockstep.memory.node_x)
            costs.append(brancher.try_some(step, simulators, recorder))
            simulators.follow(plans.preferences(step.plans, step.seen.legal))
        recording = recorder.finish()
        if recording is None:
            return None
        cost = np.concatenate(costs)
        states = lockstep.states()
        return Batch(
            sorter=self._sorter,
            recording=recording,
            advantage=of_branches(cost, recording.plans.decision),
            target=np.zeros_like(cost),
            reward=-sum(float(state.clock[0]["job_time_ms"]) for state in states) / MS_PER_S,
            states=states,
        )

    def _play_returns(
        self, network: PolicyNetwork, episodes: list[Episode], rate: float
    ) -> Batch | None:
        """Each episode several times, by drawn plans."""
        rollouts = self._config.episodes.rollouts
        lockstep = Lockstep(network, self._scales, self._lanes(episodes, rollouts))
        simulators = lockstep.simulators
        recorder = Recorder(simulators.capacity[0] * len(simulators))
        for step in lockstep:
            recorder.take_snapshots(step.seen, lockstep.memory.node_x)
            lanes = np.flatnonzero(np.diff(step.seen.legal.open_ptr) > 0)
            own = plans.picked(step.plans, lanes)
            used = simulators.follow(plans.preferences(step.plans, step.seen.legal))
            _record(step, recorder, lanes, own._replace(used=used[lanes]))
        recording = recorder.finish()
        if recording is None:
            return None
        states = lockstep.states()
        sequence = np.repeat(np.arange(len(episodes)), rollouts)
        credit = of_returns(self._config.credit, _finished(recording, states), sequence, rate)
        return Batch(
            sorter=self._sorter,
            recording=recording,
            advantage=credit.advantage,
            target=credit.target,
            reward=float(credit.reward.sum()),
            states=states,
        )

    def _lanes(self, episodes: list[Episode], rollouts: int | None) -> Lanes:
        """So many runs of each episode by drawn plans; None: one by the likeliest."""
        cluster = episodes[0].setting.config.cluster()
        if rollouts is None:
            return Lanes(self._arrays, cluster, [one.run for one in episodes], None)
        runs = [one.run for one in episodes for _ in range(rollouts)]
        keys = [
            int(Streams(self._config.seed, one.number, rollout).actions().integers(1, 2**63))
            for one in episodes
            for rollout in range(rollouts)
        ]
        return Lanes(self._arrays, cluster, runs, np.array(keys, np.uint64))


class Brancher:
    """Tries several plans from some of the states that rollouts come to."""

    def __init__(
        self,
        config: TrainConfig,
        network: PolicyNetwork,
        arrays: TraceArrays,
        episodes: list[Episode],
        iteration: int,
    ) -> None:
        self._config = config
        numbers = network.rule.numpy()
        rule = dict(zip(ALL_PARAMETERS, numbers.tolist(), strict=True))
        self._rule = Heuristic("es_classes", rule)
        key = (iteration, episodes[0].number, _STATES_STREAM)
        self._rng = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=key))
        # The rule's own run tells about how many states there will be to choose from, and what it
        # costs to go on from one.
        chances = [_chance(self._rule, arrays, one, config.credit.states) for one in episodes]
        self._chance = np.array(chances)

    def try_some(self, step: Step, simulators: VectorSimulator, recorder: Recorder) -> Float64:
        """Record what was tried in some of the simulations; returns what each plan cost."""
        legal = step.seen.legal
        has_choice = np.diff(legal.open_ptr) > 0
        lanes = np.flatnonzero(has_choice & (self._rng.random(len(has_choice)) < self._chance))
        if not len(lanes):
            return np.empty(0)
        decision = np.repeat(lanes, self._config.credit.plans)
        keys = self._rng.integers(1, 2**64, len(decision), np.uint64)
        drawn = plans.draw(step.seen.scores, legal, decision, keys)
        cost, used = self._costs(step, simulators, drawn)
        _record(step, recorder, lanes, drawn._replace(used=used))
        return cost

    def _costs(
        self, step: Step, simulators: VectorSimulator, drawn: Plans
    ) -> tuple[Float64, Int64]:
        """(Q,) what the rest of the run costs after each plan, and the entries looked at."""
        wanted = plans.preferences(drawn, step.seen.legal)
        wanted = simulators.own_numbers(wanted)
        objective = self._config.credit.objective
        cost = np.empty(len(drawn.decision))
        used = np.empty(len(drawn.decision), np.int64)
        known: dict[tuple[int, bytes], tuple[float, int]] = {}
        lengths: set[int] = set()
        for row, lane in enumerate(drawn.decision):
            # Plans that agree in all that was looked at have the same future.
            found = next(
                (
                    known[key]
                    for length in lengths
                    if (key := (int(lane), _begin(wanted, row, length))) in known
                ),
                None,
            )
            if found is None:
                state = _copied(simulators.state(int(lane)))
                length = self._rule.branch(state, wanted, row)
                end_s = np.array([state.clock[0]["time_ms"] / MS_PER_S])
                found = float(cost_at(objective, state, end_s)[0]), length
                known[int(lane), _begin(wanted, row, length)] = found
                lengths.add(length)
            cost[row], used[row] = found
        return cost, used


def _begin(wanted: Preferences, row: int, length: int) -> bytes:
    """The first `length` entries of a plan, as far as it has so many."""
    first = int(wanted.ptr[row])
    last = min(first + length, int(wanted.ptr[row + 1]))
    return b"".join(part[first:last].tobytes() for part in wanted[1:])


def _chance(rule: Heuristic, arrays: TraceArrays, episode: Episode, states: int) -> float:
    """With which a state is taken, for about `states` of them; fewer in a long run."""
    clock = played(episode, arrays, rule).clock[0]
    wanted = states / math.sqrt(max(1.0, float(clock["decisions"]) / USUAL_DECISIONS))
    return min(1.0, wanted / max(1, int(clock["rounds"])))


def _copied(state: State) -> State:
    """Tables of its own; the trace is shared."""
    return State._make([*(table.copy() for table in state[:-1]), state.trace])


def _record(step: Step, recorder: Recorder, lanes: Int64, drawn: Plans) -> None:
    found = plans.taken(step.seen.scores, step.seen.graph, drawn)
    recorder.take(step.seen, lanes, drawn, found.log_prob.numpy().astype(np.float64))


def _finished(recording: Recording, states: list[State]) -> Finished:
    decisions = recording.decisions
    return Finished(
        decisions.lane,
        decisions.time_s,
        decisions.value,
        states,
        np.array([state.clock[0]["time_ms"] / MS_PER_S for state in states]),
    )
