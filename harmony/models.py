"""Networks, and their files of weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from decima.rl.study.models import Model, ModelKind
from decima.rl.study.streams import torch_seed
from harmony.errors import HarmonyError
from harmony.network import MAX_PARAMETERS, ActorCritic, RewardModel, Size
from harmony.reward_config import RewardConfig
from harmony.training_config import TrainConfig

Network = TypeVar("Network", bound=nn.Module)

_FORMAT = "harmony-1"


def new_network(size: Size, seed: int = 0) -> ActorCritic:
    """A policy and a critic that have learned nothing."""
    return _seeded(seed, lambda: ActorCritic(size))


def new_reward_model(size: Size, seed: int = 0) -> RewardModel:
    """A reward model that has learned nothing."""
    return _seeded(seed, lambda: RewardModel(size))


POLICY = ModelKind(
    "harmony",
    HarmonyError,
    {"format": _FORMAT, "kind": "policy"},
    TrainConfig,
    lambda config: new_network(config.size),
    MAX_PARAMETERS,
)
REWARD_MODEL = ModelKind(
    "harmony",
    HarmonyError,
    {"format": _FORMAT, "kind": "reward model"},
    RewardConfig,
    lambda config: new_reward_model(config.size),
    MAX_PARAMETERS,
)
load_model = POLICY.load


def kind_of(config: TrainConfig | RewardConfig) -> ModelKind[Any, Any]:
    """The kind of network that a configuration trains."""
    return POLICY if isinstance(config, TrainConfig) else REWARD_MODEL


def described(config: TrainConfig | RewardConfig) -> dict[str, Any]:
    """Return kind and settings of a training as plain JSON."""
    return {"kind": kind_of(config).header["kind"], "config": config.to_json()}


def load_reward_model(path: Path) -> Model[RewardModel, RewardConfig]:
    """A reward model, in evaluation mode; raises what `ModelKind.load` does."""
    found = REWARD_MODEL.load(path)
    found.network.eval()
    return found


def check_same_network(network: ActorCritic, config: TrainConfig) -> None:
    """Refuse a network whose weights a training with `config` cannot begin with.

    Raises:
        HarmonyError: it is of another size.
    """
    other = {name: one.shape for name, one in new_network(config.size).state_dict().items()}
    if {name: one.shape for name, one in network.state_dict().items()} != other:
        raise HarmonyError(f"a model of another size cannot begin a training of {config.size}")


def _seeded(seed: int, make: Callable[[], Network]) -> Network:
    # torch's modules draw their first weights from the global generator, which is put back.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed))
        return make()
