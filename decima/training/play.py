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
from decima.agent.rollout import Lanes, Step, steps
from decima.agent.scales import Scales
from decima.heuristics.es_rule import PARAMETERS
from decima.policies import Heuristic
from decima.training.config import TrainConfig
from decima.training.costs import cost_at
from decima.training.credit import Finished, of_branches, of_returns
from decima.training.episodes import Episode
from spark_sim import Simulator, Streams
from spark_sim.kernels.choices import Preferences
from spark_sim.tables import State
from traces.arrays import TraceArrays
from traces.numbers import Float64, Int64

_STATES_STREAM = 12
USUAL_DECISIONS = 400
"""of an episode; one with four times as many gives half as many states"""


class Batch(NamedTuple):
    """The episodes of one setting: what was recorded, and the credit of its plans."""

    setting: int
    sorter: GraphSorter
    recording: Recording
    advantage: Float64  # (Q,)
    target: Float64  # (Q,)
    reward: float  # sum over all rollouts
    time_s: float
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
        by_branches = self._config.credit.method == "branches"
        rollouts = 1 if by_branches else self._config.episodes.rollouts
        lanes = self._lanes(episodes, rollouts)
        recorder: Recorder | None = None
        states: list[State] = []
        costs: list[Float64] = []
        brancher = None
        if by_branches:
            brancher = Brancher(self._config, network, self._arrays, episodes, iteration)
        simulators = None
        for step in steps(network, self._scales, lanes):
            simulators = step.simulators
            if recorder is None:
                recorder = Recorder(simulators.capacity[0] * len(simulators))
            recorder.take_snapshots(step.seen, step.memory.node_x)
            wanted = plans.preferences(step.plans, step.seen.legal)
            if brancher is not None:
                costs.append(brancher.try_some(step, recorder))
                simulators.follow(wanted)
            else:
                has_choice = np.flatnonzero(np.diff(step.seen.legal.open_ptr) > 0)
                drawn = plans.picked(step.plans, has_choice)
                used = simulators.follow(wanted)
                _record(step, recorder, has_choice, drawn._replace(used=used[has_choice]))
        if simulators is None or recorder is None:
            return None
        states = [simulators.state(index) for index in range(len(simulators))]
        recording = recorder.finish()
        if recording is None:
            return None
        setting = episodes[0].setting.number
        total_s = float(sum(state.clock[0]["time_ms"] for state in states)) / 1000.0
        if brancher is not None:
            cost = np.concatenate(costs)
            advantage = of_branches(cost, recording.plans.decision)
            total = -sum(float(state.clock[0]["job_time_ms"]) for state in states) / 1000.0
            return Batch(setting, self._sorter, recording, advantage, cost, total, total_s, states)
        sequence = np.repeat(np.arange(len(episodes)), rollouts)
        credit = of_returns(self._config.credit, _finished(recording, states), sequence, rate)
        return Batch(
            setting,
            self._sorter,
            recording,
            credit.advantage,
            credit.target,
            float(credit.reward.sum()),
            total_s,
            states,
        )

    def _lanes(self, episodes: list[Episode], rollouts: int) -> Lanes:
        runs, keys = [], []
        for episode in episodes:
            for rollout in range(rollouts):
                runs.append(episode.run)
                streams = Streams(self._config.seed, episode.number, rollout)
                keys.append(int(streams.actions().integers(1, 2**63)))
        cluster = episodes[0].setting.config.cluster()
        # Branches are tried from the states that the likeliest plans lead to: those it will meet.
        by_branches = self._config.credit.method == "branches"
        return Lanes(
            self._arrays, cluster, runs, None if by_branches else np.array(keys, np.uint64)
        )


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
        rule = dict(zip(PARAMETERS, numbers.tolist(), strict=True))
        self._rule = Heuristic("es_rule", rule)
        key = (iteration, episodes[0].number, _STATES_STREAM)
        self._rng = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=key))
        # The rule's own run tells about how many states there will be to choose from, and what it
        # costs to go on from one.
        chances = [_chance(self._rule, arrays, one, config.credit.states) for one in episodes]
        self._chance = np.array(chances)

    def try_some(self, step: Step, recorder: Recorder) -> Float64:
        """Record what was tried in some of the simulations; returns what each plan cost."""
        legal = step.seen.legal
        has_choice = np.diff(legal.open_ptr) > 0
        lanes = np.flatnonzero(has_choice & (self._rng.random(len(has_choice)) < self._chance))
        if not len(lanes):
            return np.empty(0)
        decision = np.repeat(lanes, self._config.credit.plans)
        keys = self._rng.integers(1, 2**64, len(decision), np.uint64)
        drawn = plans.draw(step.seen.scores, legal, decision, keys)
        cost, used = self._costs(step, drawn)
        _record(step, recorder, lanes, drawn._replace(used=used))
        return cost

    def _costs(self, step: Step, drawn: Plans) -> tuple[Float64, Int64]:
        """(Q,) what the rest of the run costs after each plan, and the entries looked at."""
        wanted = plans.preferences(drawn, step.seen.legal)
        batch = step.simulators.observation()
        stage = np.where(wanted.stage < 0, wanted.stage, batch.stage_row[wanted.stage])
        wanted = wanted._replace(stage=stage.astype(np.int64))
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
                state = _copied(step.simulators.state(int(lane)))
                length = self._rule.branch(state, wanted, row)
                end_s = np.array([state.clock[0]["time_ms"] / 1000.0])
                found = float(cost_at(objective, state, end_s)[0]), length
                known[int(lane), _begin(wanted, row, length)] = found
                lengths.add(length)
            cost[row], used[row] = found
        return cost, used


def _begin(wanted: Preferences, row: int, length: int) -> bytes:
    """The first `length` entries of a plan, as far as it has so many."""
    first = int(wanted.ptr[row])
    last = min(first + length, int(wanted.ptr[row + 1]))
    return wanted.stage[first:last].tobytes() + wanted.limit[first:last].tobytes()


def _chance(rule: Heuristic, arrays: TraceArrays, episode: Episode, states: int) -> float:
    """With which a state is taken, for about `states` of them; fewer in a long run."""
    run = episode.run
    simulator = Simulator(
        arrays,
        episode.setting.config.cluster(),
        run.arrival_ms,
        run.job,
        duration_key=run.duration_key,
    )
    rule.play(simulator)
    clock = simulator.state.clock[0]
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
        np.array([state.clock[0]["time_ms"] / 1000.0 for state in states]),
    )
