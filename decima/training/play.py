"""Play of a group's episodes: rollouts under the network, or a teacher's plans."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from decima.agent import plan_probabilities, plans
from decima.agent.graph import GraphSorter
from decima.agent.network import PolicyNetwork
from decima.agent.recording import Recorder, Recording
from decima.agent.rollout import Lanes, Lockstep
from decima.agent.scales import Scales
from decima.agent.weights import NetworkWeights
from decima.training.config import TrainConfig
from decima.training.credit import Finished, Reference, of_returns
from decima.training.episodes import Episode
from decima.training.teachers import HeuristicLabeller, Labeller, NetworkLabeller
from spark_sim import Streams
from spark_sim.tables import State
from traces.arrays import TraceArrays
from traces.numbers import MS_PER_S, Float64, Int64

_IMITATION_STREAM = 12
SCORED_AT_ONCE = 2_048  # decisions whose log-probabilities are computed in one pass


class Batch(NamedTuple):
    """The episodes of one setting: their recording, and the credit of its Q plans."""

    recording: Recording
    advantage: Float64  # (Q,)
    target: Float64  # (Q,)
    reward: float  # sum over all rollouts
    states: list[State]  # of each rollout, at its end


class Player:
    """Player of episodes of one trace under a network."""

    def __init__(self, config: TrainConfig, arrays: TraceArrays, sorter: GraphSorter) -> None:
        self._config = config
        self._arrays = arrays
        self._scales = Scales.of(arrays)
        self._sorter = sorter

    def rollouts(
        self, network: PolicyNetwork, episodes: list[Episode], rate: float, reference: Reference
    ) -> Batch | None:
        """Play each episode several times by drawn plans; None if there was no decision.

        `rate` is the average reward a second so far, for differential returns.
        """
        count = self._config.reinforce.rollouts
        lockstep = Lockstep(network, self._scales, self._drawn(episodes, count))
        simulators = lockstep.simulators
        recorder = Recorder()
        for step in lockstep:
            recorder.take_snapshots(step.scored)
            choices = step.scored.choices
            lanes = np.flatnonzero(np.diff(choices.open_ptr) > 0)
            own = plans.picked(step.plans, lanes)
            used = simulators.follow(plans.preferences(step.plans, choices))
            recorder.take(step.scored, lanes, own._replace(used=used[lanes]))
        recording = recorder.finish()
        if recording is None:
            return None
        recording.log_prob = self._log_prob(network, recording)
        states = lockstep.states()
        sequence = np.repeat(np.arange(len(episodes)), count)
        decisions = recording.decisions
        ends_s = np.array([state.clock[0]["time_ms"] / MS_PER_S for state in states])
        finished = Finished(decisions.lane, decisions.time_s, decisions.value, states, ends_s)
        credit = of_returns(
            self._config.credit, self._config.objective, finished, sequence, rate, reference
        )
        reward = float(credit.reward.sum())
        return Batch(recording, credit.advantage, credit.target, reward, states)

    def demonstrations(
        self,
        network: PolicyNetwork,
        episodes: list[Episode],
        teacher: str | NetworkWeights,
        iteration: int,
    ) -> Batch | None:
        """Play each episode once, by the teacher or by the network; the teacher's plans are labels.

        The player of a sequence is drawn, so that states reached only by the network are labelled
        too. Advantages are 1, so the policy gradient is that of the labels' likelihood.
        """
        imitate = self._config.imitate
        key = (iteration, episodes[0].number, _IMITATION_STREAM)
        rng = np.random.default_rng(np.random.SeedSequence(self._config.seed, spawn_key=key))
        is_student = rng.random(len(episodes)) < (imitate.student if iteration > 0 else 0.0)
        lockstep = Lockstep(network, self._scales, self._likeliest(episodes))
        simulators = lockstep.simulators
        labeller: Labeller
        if isinstance(teacher, str):
            labeller = HeuristicLabeller(teacher, simulators, self._arrays)
        else:
            labeller = NetworkLabeller(teacher, simulators, self._arrays)
        recorder = Recorder()
        for step in lockstep:
            recorder.take_snapshots(step.scored)
            choices = step.scored.choices
            has_choice = np.diff(choices.open_ptr) > 0
            is_labelled = has_choice & (~is_student | (rng.random(len(episodes)) < imitate.labels))
            lanes = np.flatnonzero(is_labelled)
            labels = labeller.label(step.plans, step.scored, lanes)
            lanes = lanes[labels.used[lanes] > 0]
            recorder.take(step.scored, lanes, plans.picked(labels, lanes))
            ahead = np.where(is_student | (labels.used == 0), 0, 1)
            simulators.follow(plans.preferences(plans.chosen(step.plans, labels, ahead), choices))
        recording = recorder.finish()
        if recording is None:
            return None
        count = len(recording.plans.decision)
        states = lockstep.states()
        reward = -sum(float(state.clock[0]["job_time_ms"]) for state in states) / MS_PER_S
        return Batch(recording, np.ones(count), np.zeros(count), reward, states)

    def _log_prob(self, network: PolicyNetwork, recording: Recording) -> Float64:
        """(Q,) log-probabilities of the recorded plans under the network that drew them."""
        found = np.zeros(len(recording.plans.decision))
        order = np.argsort(recording.decisions.lane, kind="stable")
        with torch.no_grad():
            for first in range(0, len(order), SCORED_AT_ONCE):
                index: Int64 = order[first : first + SCORED_AT_ONCE]
                graph = recording.graph(index, self._sorter)
                own, rows = recording.plans_of(index)
                found[rows] = plan_probabilities.taken(network(graph), graph, own).log_prob.numpy()
        return found

    def _drawn(self, episodes: list[Episode], rollouts: int) -> Lanes:
        """Play `rollouts` runs of each episode with drawn plans."""
        runs = [one.run for one in episodes for _ in range(rollouts)]
        keys = [
            int(Streams(self._config.seed, one.number, rollout).actions().integers(1, 2**63))
            for one in episodes
            for rollout in range(rollouts)
        ]
        cluster = episodes[0].setting.config.cluster()
        return Lanes(self._arrays, cluster, runs, np.array(keys, np.uint64))

    def _likeliest(self, episodes: list[Episode]) -> Lanes:
        """One run of each episode by the likeliest plans."""
        cluster = episodes[0].setting.config.cluster()
        return Lanes(self._arrays, cluster, [one.run for one in episodes], None)
