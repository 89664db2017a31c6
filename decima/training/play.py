"""The tasks that play: functions of (weights, iteration, sequences, seed), and of nothing else.

A task plays neighbours of one setting side by side. The configuration (`EpisodeSource`) groups
them, so results do not depend on the processes or their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decima.agent import plan_probabilities, plans
from decima.agent.graph import GraphSorter
from decima.agent.network import PolicyNetwork
from decima.agent.recording import Recorder, Recording
from decima.agent.rollout import Lanes, Lockstep, play_out
from decima.agent.scales import Scales
from decima.agent.weights import NetworkWeights
from decima.objectives import Objective, objective_named
from decima.policies import networks_of
from decima.registry import Heuristic
from decima.rl.optimiser import set_flat_parameters
from decima.rl.parallel.pool import SentOnce
from decima.training.config import TrainConfig
from decima.training.credit import Reference, assign_credit
from decima.training.episodes import Episode, EpisodeSource, Setting, figures, played
from decima.training.teachers import (
    SEQUENCES,
    HeuristicLabeller,
    Labeller,
    NetworkLabeller,
    Teacher,
    best_teacher,
)
from spark_sim import Streams
from spark_sim.metrics import measure
from spark_sim.tables import State
from traces.arrays import TraceArrays
from traces.numbers import MS_PER_S, Float64, Int64

REFERENCE = "strict_fair"
ABOVE = "above_"  # prefix of another heuristic's name: percent above its average JCT
_OTHERS = ("es_rule", "tuned_srw", "tuned_weighted_fair")
"""the heuristics that scores are relative to, the main one first"""
_IMITATION_STREAM = 12
SCORED_AT_ONCE = 2_048  # decisions whose log-probabilities are computed in one pass


class TrainingContext:
    """Inputs that all tasks of a training share and no iteration changes."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.objective = objective_named(config.objective)
        learning = config.imitate.teachers if config.imitate.iterations > 0 else ()
        self.networks = networks_of(learning)
        """of the learned teachers, as the processes of a cluster do not have their files"""
        self.source = EpisodeSource(config)
        self._sorters: dict[tuple[str | int | None, ...], GraphSorter] = {}
        self._references: dict[int, Reference] = {}
        self._teachers: dict[int, Teacher] = {}

    def jobs(self, setting: Setting) -> tuple[TraceArrays, GraphSorter]:
        """Return the jobs of a setting, and the sorter of their stages."""
        arrays = self.source.workload(setting).arrays
        key = setting.config.workload_key()
        if key not in self._sorters:
            self._sorters[key] = GraphSorter(arrays)
        return arrays, self._sorters[key]

    def reference(self, setting: Setting) -> Reference:
        """Return the units of a setting's returns: strict fair on the teachers' sequences."""
        if setting.number not in self._references:
            episodes = self.source.for_choosing_teachers(setting, SEQUENCES)
            policy = Heuristic(REFERENCE)
            states = [played(episode, self.jobs(setting)[0], policy) for episode in episodes]
            job_s = sum(float(state.clock[0]["job_time_ms"]) for state in states) / MS_PER_S
            time_s = sum(float(state.clock[0]["time_ms"]) for state in states) / MS_PER_S
            jct_s = float(np.mean([measure(state).avg_jct_s for state in states]))
            self._references[setting.number] = Reference(jct_s, job_s / max(time_s, 1e-9))
        return self._references[setting.number]

    def teacher(self, setting: Setting) -> Teacher:
        """The best of the configured teachers in a setting."""
        if setting.number not in self._teachers:
            names = self.config.imitate.teachers
            arrays, _ = self.jobs(setting)
            self._teachers[setting.number] = best_teacher(
                names, self.source, setting, arrays, self.objective, self.networks
            )
        return self._teachers[setting.number]

    def network(self, weights: Tensor) -> PolicyNetwork:
        """Return the network of this process with these (P,) weights and no gradient."""
        # More threads would change the order of additions, and are slower on matrices so small.
        torch.set_num_threads(1)
        set_flat_parameters(self._network, weights)
        self._network.zero_grad()
        return self._network

    @cached_property
    def _network(self) -> PolicyNetwork:
        return PolicyNetwork(self.config.network)


# --- rollouts ------------------------------------------------------------------------------------


class Playing(NamedTuple):
    """Inputs that the rollouts of an iteration share."""

    context: SentOnce[TrainingContext]
    weights: Tensor  # (P,) of the network that plays
    iteration: int
    rate: float  # average reward a second so far


class Rollouts(NamedTuple):
    """Recording of a group's episodes, M runs with Q plans, and their credit."""

    setting: Setting
    recording: Recording
    advantage: Float64  # (Q,)
    target: Float64  # (Q,) of the critic
    reward: float  # sum over all runs
    time_s: Float64  # (M,) length of each run
    figures: list[float]  # objective of each run
    reference_figures: list[float]  # objective of each episode under `REFERENCE`


def play(shared: Playing, episodes: range) -> Rollouts | None:
    """Play some sequences of an iteration and assign credit; None if they held no decision."""
    context = shared.context.value
    group = context.source.of_iteration(shared.iteration, episodes)
    setting = group[0].setting
    player = Player(context.config, *context.jobs(setting), context.objective)
    network = context.network(shared.weights)
    step, _ = context.config.step_at(shared.iteration)
    if step is context.config.imitate:
        name = context.teacher(setting).name
        teacher = context.networks.get(name, name)
        return player.demonstrations(network, group, teacher, shared.iteration)
    return player.rollouts(network, group, shared.rate, context.reference(setting))


class Player:
    """Player of the episodes of one setting."""

    def __init__(
        self, config: TrainConfig, arrays: TraceArrays, sorter: GraphSorter, objective: Objective
    ) -> None:
        self._config = config
        self._arrays = arrays
        self._scales = Scales.of(arrays)
        self._sorter = sorter
        self._objective = objective

    def rollouts(
        self, network: PolicyNetwork, episodes: list[Episode], rate: float, reference: Reference
    ) -> Rollouts | None:
        """Play each episode several times by drawn plans; None if there was no decision.

        `rate` is the average reward a second so far, for differential returns.
        """
        count = self._config.reinforce.rollouts
        keys = [
            int(Streams(self._config.seed, episode.number, rollout).actions().integers(1, 2**63))
            for episode in episodes
            for rollout in range(count)
        ]
        sequence = np.repeat(np.arange(len(episodes)), count)
        runs = [episodes[index].run for index in sequence]
        cluster = episodes[0].setting.config.cluster()
        lanes = Lanes(self._arrays, cluster, runs, np.array(keys, np.uint64))
        lockstep = Lockstep(network, self._scales, lanes)
        simulators = lockstep.simulators
        recorder = Recorder()
        for step in lockstep:
            recorder.take_snapshots(step.scored)
            choices = step.scored.choices
            deciding = np.flatnonzero(np.diff(choices.open_ptr) > 0)
            drawn = plans.picked(step.plans, deciding)
            used = simulators.follow(plans.preferences(step.plans, choices))
            recorder.take(step.scored, deciding, drawn._replace(used=used[deciding]))
        recording = recorder.finish()
        if recording is None:
            return None

        # Log-probabilities of the plans under the network that drew them, for PPO's ratio.
        order = np.argsort(recording.decisions.lane, kind="stable")
        with torch.no_grad():
            for first in range(0, len(order), SCORED_AT_ONCE):
                index: Int64 = order[first : first + SCORED_AT_ONCE]
                graph = recording.graph(index, self._sorter)
                chunk, rows = recording.plans_of(index)
                taken = plan_probabilities.taken(network(graph), graph, chunk)
                recording.log_prob[rows] = taken.log_prob.numpy()

        states = lockstep.states()
        credit = assign_credit(
            self._config.credit,
            self._objective,
            recording.decisions,
            states,
            sequence=sequence,
            rate=rate,
            reference=reference,
        )
        reward = float(credit.reward.sum())
        return self._finished(episodes, recording, states, credit.advantage, credit.target, reward)

    def demonstrations(
        self,
        network: PolicyNetwork,
        episodes: list[Episode],
        teacher: str | NetworkWeights,
        iteration: int,
    ) -> Rollouts | None:
        """Play each episode once, by the teacher or by the network; the teacher's plans are labels.

        The player of a sequence is drawn, so that states reached only by the network are labelled
        too. Advantages are 1, so the policy gradient is that of the labels' likelihood.
        """
        imitate = self._config.imitate
        key = (iteration, episodes[0].number, _IMITATION_STREAM)
        rng = np.random.default_rng(np.random.SeedSequence(self._config.seed, spawn_key=key))
        is_student = rng.random(len(episodes)) < (imitate.student if iteration > 0 else 0.0)
        runs = [episode.run for episode in episodes]
        lanes = Lanes(self._arrays, episodes[0].setting.config.cluster(), runs, None)
        lockstep = Lockstep(network, self._scales, lanes)
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
            labels = labeller.label(step.plans, step.scored, np.flatnonzero(is_labelled))
            labelled = np.flatnonzero(is_labelled & (labels.used > 0))
            recorder.take(step.scored, labelled, plans.picked(labels, labelled))
            ahead = np.where(is_student | (labels.used == 0), 0, 1)
            simulators.follow(plans.preferences(plans.chosen(step.plans, labels, ahead), choices))
        recording = recorder.finish()
        if recording is None:
            return None
        count = len(recording.plans.decision)
        states = lockstep.states()
        reward = -sum(float(state.clock[0]["job_time_ms"]) for state in states) / MS_PER_S
        return self._finished(episodes, recording, states, np.ones(count), np.zeros(count), reward)

    def _finished(
        self,
        episodes: list[Episode],
        recording: Recording,
        states: list[State],
        advantage: Float64,
        target: Float64,
        reward: float,
    ) -> Rollouts:
        return Rollouts(
            episodes[0].setting,
            recording,
            advantage,
            target,
            reward,
            np.array([float(state.clock[0]["time_ms"]) / MS_PER_S for state in states]),
            [self._objective.value(measure(state)) for state in states],
            figures(episodes, self._arrays, REFERENCE, self._objective),
        )


# --- validation ----------------------------------------------------------------------------------


class Validating(NamedTuple):
    """Inputs that the runs of a validation share."""

    context: SentOnce[TrainingContext]
    weights: Tensor | None  # (P,); None where heuristics alone play


class Validation(NamedTuple):
    """Held-out sequences of one setting under one policy."""

    heuristic: str | None  # None: the network
    episodes: range
    is_drawn: bool = False  # the network's plans are drawn, not the likeliest


def validate(shared: Validating, task: Validation) -> tuple[str, list[float]]:
    """The setting, and the objective of each sequence."""
    context = shared.context.value
    episodes = context.source.for_validation(task.episodes)
    setting = episodes[0].setting
    arrays, _ = context.jobs(setting)
    if task.heuristic is not None:
        return setting.label, figures(episodes, arrays, task.heuristic, context.objective)
    if shared.weights is None:
        raise TypeError("a network needs weights, and there are none")
    keys = [episode.number + 1 for episode in episodes]
    drawn_by = np.array(keys, np.uint64) if task.is_drawn else None
    runs = [episode.run for episode in episodes]
    lanes = Lanes(arrays, setting.config.cluster(), runs, drawn_by)
    states = play_out(context.network(shared.weights), Scales.of(arrays), lanes).states
    return setting.label, [context.objective.of(measure(state)) for state in states]


def compared_with(settings: Sequence[Setting], objective: Objective) -> tuple[str, ...]:
    """The heuristics whose validation a network's is compared with, `REFERENCE` first."""
    is_classed = any(setting.config.classes is not None for setting in settings)
    classed = ("es_classes",) if is_classed else ()
    makespan = ("es_makespan",) if objective.name == "makespan" else ()
    return (REFERENCE, *_OTHERS, *classed, *makespan)
