"""Networks by name, and their files of weights."""

from __future__ import annotations

from pathlib import Path

import torch

from decima.rl.errors import StudyError
from decima.rl.study import models
from decima.rl.study.models import ModelKind
from deeprm.config import Config
from deeprm.network import CompactPolicy, ImagePolicy
from deeprm.schedulers import Learned, Scheduler
from deeprm.training_config import TrainConfig

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

    Raises:
        StudyError: it is of another kind, or made for a cluster of another shape.
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

    Raises:
        StudyError: it is no model, or was made for a cluster of another shape.
    """
    model = load_model(path)
    if not model.network.fits(config):
        raise StudyError(f"{path}: was made for a cluster of another shape")
    return scheduler_of(model)
