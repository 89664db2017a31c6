"""Schedulers: the heuristics, and networks that choose, with their files of weights.

Source of the heuristics: DeepRM (HotNets 2016), section 4.1, paragraph "Comparables"; Packer and
Tetris* after Tetris (SIGCOMM 2014). Like DeepRM they see the jobs in the slots and no others, and
unlike it they start each job at once, as many as fit, in the order of their score.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from decima.rl.errors import StudyError
from decima.rl.study import models
from decima.rl.study.lockstep import Chooser
from decima.rl.study.models import ModelKind
from decima.rl.study.streams import Draws
from deeprm import policy_kernels
from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.network import CompactPolicy, Frozen, ImagePolicy, Input
from deeprm.tables import Int32
from deeprm.training_config import TrainConfig

Scheduler = Chooser[Episodes]
"""chooses 0 for void, m for the job in slot m"""


@dataclass(frozen=True)
class Scored:
    r"""Start the job with the highest score of those that can start now.

    .. math:: w / T_j + (1 - w) \sum_r f_r \, q_{jr}

    with the duration :math:`T_j`, and the free and the demanded share of each resource,
    :math:`f_r` and :math:`q_{jr}`. Weight 1 is shortest job first, 0 is Packer, anything between
    Tetris*. With a theta, jobs longer than all small ones are held back for those to come.
    """

    weight: float
    """w, of shortness against fit, in [0, 1]"""
    theta: int = 0
    """units of each resource that must stay free after the start of a large job"""

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight <= 1.0:
            raise StudyError(f"the weight is {self.weight}: it must lie in [0, 1]")

    def choose(self, episodes: Episodes, rows: Int32, draws: Draws) -> Int32:
        """(n,) actions; nothing is random."""
        action = np.empty(len(rows), np.int32)
        rule = policy_kernels.Rule(self.weight, episodes.config.small_duration[1], self.theta)
        policy_kernels.best_now(episodes.rules, episodes.jobs, episodes.state, rows, rule, action)
        return action


SJF = Scored(1.0)
PACKER = Scored(0.0)


class RandomChoice:
    """Uniform choice among void and the jobs that fit."""

    def choose(self, episodes: Episodes, rows: Int32, draws: Draws) -> Int32:
        """(n,) actions."""
        allowed = episodes.masks(rows)
        passed = (draws.next(rows) * allowed.sum(axis=1)).astype(np.int32)
        return np.asarray((allowed.cumsum(axis=1) <= passed[:, None]).sum(axis=1, dtype=np.int32))


class Learned:
    """A network as a scheduler.

    Args:
        network: as it is now.
        greedy: take the action with the highest score instead of drawing one. The paper draws.
    """

    def __init__(self, network: Frozen, *, greedy: bool = False) -> None:
        self._network = network
        self._greedy = greedy
        self.inputs: Input
        """the network's, at the last choice"""

    def choose(self, episodes: Episodes, rows: Int32, draws: Draws) -> Int32:
        """(n,) actions."""
        self.inputs = self._network.observe(episodes, rows)
        chance = np.full(len(rows), -1.0) if self._greedy else draws.next(rows)
        action = np.empty(len(rows), np.int32)
        policy_kernels.draw_action(self._network.scores(self.inputs), chance, action)
        return action


AnyNetwork = ImagePolicy | CompactPolicy
Model = models.Model[AnyNetwork, TrainConfig]


def new_network(config: TrainConfig, generator: torch.Generator | None = None) -> AnyNetwork:
    """A network that has learned nothing, as the configuration of a training asks for it."""
    if config.policy == "compact":
        return CompactPolicy(config.cluster, generator)
    return ImagePolicy(config.cluster, generator, mask_empty_slots=config.mask_empty_slots)


POLICY = ModelKind("deeprm", 1, TrainConfig, new_network)
save_model, load_model = POLICY.save, POLICY.load


def network_to_begin_with(path: Path, config: TrainConfig) -> AnyNetwork:
    """Load a network whose weights a training with `config` can begin with.

    Raises StudyError if it is of another kind, or made for a cluster of another shape.
    """
    model = load_model(path)
    if model.config.policy != config.policy or not model.network.fits(config.cluster):
        raise StudyError(
            f"a model on {model.config.policy} of its cluster cannot begin a training on "
            f"{config.policy}, or its cluster has another shape"
        )
    return model.network


def scheduler_of(model: Model) -> Scheduler:
    """A model as a scheduler, which draws its actions or not, as it was trained."""
    return Learned(model.network.frozen(), greedy=model.config.is_greedy)


def load_scheduler(path: Path, config: Config) -> Scheduler:
    """Load a model as a scheduler for a cluster.

    Raises StudyError if it is no model, or was made for a cluster of another shape.
    """
    model = load_model(path)
    if not model.network.fits(config):
        raise StudyError(f"{path}: was made for a cluster of another shape")
    return scheduler_of(model)
