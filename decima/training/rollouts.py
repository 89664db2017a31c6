"""The tasks that play: a function of (weights, iteration, sequences, seed), and of nothing else.

A task plays neighbours of one setting side by side. The configuration (`EpisodeSource`) groups
them, so results do not depend on the processes or their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decima.agent.graph import GraphSorter
from decima.agent.network import PolicyNetwork
from decima.agent.recording import Recording
from decima.agent.rollout import Lanes, play_out
from decima.agent.scales import Scales
from decima.objectives import Objective, objective_named
from decima.registry import Heuristic
from decima.rl.optimiser import set_flat_parameters
from decima.rl.parallel.pool import SentOnce
from decima.training.config import TrainConfig
from decima.training.credit import Reference
from decima.training.episodes import EpisodeSource, Setting, figures, played
from decima.training.play import Player
from decima.training.teachers import SEQUENCES, Teacher, best_teacher
from spark_sim.metrics import measure
from traces.arrays import TraceArrays
from traces.numbers import MS_PER_S, Float64

REFERENCE = "strict_fair"
ABOVE = "above_"  # prefix of another heuristic's name: percent above its average JCT
_OTHERS = ("es_rule", "tuned_srw", "tuned_weighted_fair")
"""the heuristics that scores are relative to, the main one first"""

Figures = dict[str, list[float]]
"""objective of each run, by setting; unfinished jobs count with their age"""


class TrainingContext:
    """Inputs that all tasks of a training share and no iteration changes."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.objective = objective_named(config.objective)
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
            states = [played(one, self.jobs(setting)[0], policy) for one in episodes]
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
                names, self.source, setting, arrays, self.objective
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


class Rollouts(NamedTuple):
    """Recording of a group's episodes, M runs with Q plans, and their rewards."""

    setting: Setting
    recording: Recording
    advantage: Float64  # (Q,)
    target: Float64  # (Q,)
    reward: float  # sum over all runs
    time_s: Float64  # (M,) length of each run
    figures: list[float]  # objective of each run
    reference_figures: list[float]  # objective of each episode under `REFERENCE`


class Playing(NamedTuple):
    """Inputs that the rollouts of an iteration share."""

    context: SentOnce[TrainingContext]
    weights: Tensor  # (P,) of the network that plays
    iteration: int
    rate: float  # average reward a second so far


def play(shared: Playing, episodes: range) -> Rollouts | None:
    """Play some sequences of an iteration and assign credit; None if they held no decision."""
    context = shared.context.value
    own = context.source.of_iteration(shared.iteration, episodes)
    setting = own[0].setting
    arrays, sorter = context.jobs(setting)
    player = Player(context.config, arrays, sorter)
    network = context.network(shared.weights)
    step, _ = context.config.step_at(shared.iteration)
    if step is context.config.imitate:
        teacher = context.teacher(setting).name
        batch = player.demonstrations(network, own, teacher, shared.iteration)
    else:
        batch = player.rollouts(network, own, shared.rate, context.reference(setting))
    if batch is None:
        return None
    return Rollouts(
        setting,
        batch.recording,
        batch.advantage,
        batch.target,
        batch.reward,
        np.array([float(state.clock[0]["time_ms"]) / MS_PER_S for state in batch.states]),
        [context.objective.value(measure(state)) for state in batch.states],
        figures(own, arrays, REFERENCE, context.objective),
    )


def compared_with(settings: Sequence[Setting], objective: Objective) -> tuple[str, ...]:
    """The heuristics whose validation a network's is compared with, `REFERENCE` first."""
    is_classed = any(one.config.classes is not None for one in settings)
    classed = ("es_classes",) if is_classed else ()
    makespan = ("es_makespan",) if objective.name == "makespan" else ()
    return (REFERENCE, *_OTHERS, *classed, *makespan)


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
    own = context.source.for_validation(task.episodes)
    setting = own[0].setting
    arrays, _ = context.jobs(setting)
    if task.heuristic is not None:
        return setting.label, figures(own, arrays, task.heuristic, context.objective)
    if shared.weights is None:
        raise TypeError("a network needs weights, and there are none")
    keys = np.array([one.number + 1 for one in own], np.uint64) if task.is_drawn else None
    lanes = Lanes(arrays, setting.config.cluster(), [one.run for one in own], keys)
    states = play_out(context.network(shared.weights), Scales.of(arrays), lanes).states
    return setting.label, [context.objective.of(measure(state)) for state in states]


def by_setting(found: Iterable[tuple[str, list[float]]]) -> Figures:
    """The runs of each setting, in their order."""
    joined: Figures = {}
    for label, values in found:
        joined.setdefault(label, []).extend(values)
    return joined
