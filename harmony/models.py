"""Networks, and their files of weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from decima.rl.errors import StudyError
from decima.rl.study.models import C, Model, ModelKind, N
from decima.rl.study.streams import torch_seed
from harmony.network import MAX_PARAMETERS, ActorCritic, RewardModel, Size
from harmony.training_config import RewardConfig, TrainConfig


def new_network(size: Size, seed: int = 0) -> ActorCritic:
    """A policy and a critic that have learned nothing."""
    return _seeded(seed, lambda: ActorCritic(size))


def new_reward_model(size: Size, seed: int = 0) -> RewardModel:
    """A reward model that has learned nothing."""
    return _seeded(seed, lambda: RewardModel(size))


def _kind(name: str, config: type[C], make: Callable[[C], N]) -> ModelKind[N, C]:
    return ModelKind("harmony", "harmony-1", config, make, name, MAX_PARAMETERS)


POLICY = _kind("policy", TrainConfig, lambda config: new_network(config.size))
REWARD_MODEL = _kind("reward model", RewardConfig, lambda config: new_reward_model(config.size))
load_model = POLICY.load


def kind_of(config: TrainConfig | RewardConfig) -> ModelKind[Any, Any]:
    """The kind of network that a configuration trains."""
    return POLICY if isinstance(config, TrainConfig) else REWARD_MODEL


def load_reward_model(path: Path) -> Model[RewardModel, RewardConfig]:
    """A reward model, in evaluation mode; raises what `ModelKind.load` does."""
    model = REWARD_MODEL.load(path)
    model.network.eval()
    return model


def network_to_begin_with(path: Path, config: TrainConfig) -> ActorCritic:
    """Load a network whose weights a training with `config` can begin with.

    One that ignores types of GPU is widened to see them: at first it acts as before.

    Raises:
        StudyError: it is of another size.
    """
    network, trained, _ = load_model(path)
    wanted = new_network(config.size)
    weights = network.state_dict()
    shapes = {name: weight.shape for name, weight in wanted.state_dict().items()}
    if replace(trained.size, gpu_types=config.size.gpu_types) == config.size and (
        trained.size.gpu_types == 1
    ):
        # The columns of types come last in the rows of inputs; their weights are 0 at first.
        for name, weight in weights.items():
            wider = shapes[name][-1] - weight.shape[-1]
            weights[name] = functional.pad(weight, (0, wider)) if wider else weight
    if {name: weight.shape for name, weight in weights.items()} != shapes:
        raise StudyError(f"a model of another size cannot begin a training of {config.size}")
    wanted.load_state_dict(weights)
    return wanted


def _seeded(seed: int, make: Callable[[], N]) -> N:
    # torch's modules draw their first weights from the global generator, which is put back.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed))
        return make()
