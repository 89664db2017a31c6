"""Networks, and files of weights: safetensors, with the configuration beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from decima.rl.checkpoint import load_tensors, object_among, save_tensors
from decima.rl.model_files import halved, header_settings, load_halved, outline
from harmony.errors import HarmonyError
from harmony.jobs import Purpose, seed_of
from harmony.network import MAX_PARAMETERS, ActorCritic, RewardModel, Size
from harmony.reward_config import RewardConfig
from harmony.training_config import TrainConfig

Network = TypeVar("Network", bound=nn.Module)

_FORMAT = "harmony-1"
_MAX_BYTES = 4 * MAX_PARAMETERS


def new_network(size: Size, seed: int = 0) -> ActorCritic:
    """A policy and a critic that have learned nothing."""
    return _seeded(seed, lambda: ActorCritic(size))


def new_reward_model(size: Size, seed: int = 0) -> RewardModel:
    """A reward model that has learned nothing."""
    return _seeded(seed, lambda: RewardModel(size))


def check_size(config: TrainConfig | RewardConfig) -> None:
    """Refuse a network that is too large, before anything of it is allocated.

    Raises:
        HarmonyError: a file of it could not be read.
    """
    make = new_network if isinstance(config, TrainConfig) else new_reward_model
    outline(lambda: make(config.size), HarmonyError, MAX_PARAMETERS)


class Model(NamedTuple):
    """Content of a file of policy weights."""

    network: ActorCritic
    config: TrainConfig
    """of the training"""
    card: dict[str, Any]
    """how the training went"""


class LearnedSpeeds(NamedTuple):
    """Content of a file of reward-model weights."""

    network: RewardModel
    """in evaluation mode"""
    config: RewardConfig
    card: dict[str, Any]


def save_model(
    path: Path,
    config: TrainConfig | RewardConfig,
    weights: Mapping[str, Tensor],
    card: Mapping[str, object],
) -> None:
    """Write weights as 16-bit numbers, with the configuration of their training.

    Raises:
        RunError: the file cannot be written.
    """
    facts = {"format": _FORMAT, **described(config), "card": dict(card)}
    save_tensors(path, halved(weights), facts)


def described(config: TrainConfig | RewardConfig) -> dict[str, Any]:
    """Return the training's settings as plain JSON."""
    kind = "policy" if isinstance(config, TrainConfig) else "reward model"
    return {"kind": kind, "config": config.to_json()}


def load_model(path: Path) -> Model:
    """A policy that `save_model` wrote.

    Raises:
        HarmonyError: the file is no such model.
        RunError: it cannot be read, or its header lacks something.
    """
    tensors, facts = _read(path, "policy")
    stored = object_among(facts, "config", path)
    config = header_settings(path, TrainConfig, stored, HarmonyError)
    card = object_among(facts, "card", path)
    network = _built(path, lambda: new_network(config.size), tensors)
    return Model(network, config, card)


def load_reward_model(path: Path) -> LearnedSpeeds:
    """A reward model that `save_model` wrote.

    Raises:
        HarmonyError: the file is no such model.
        RunError: it cannot be read, or its header lacks something.
    """
    tensors, facts = _read(path, "reward model")
    stored = object_among(facts, "config", path)
    config = header_settings(path, RewardConfig, stored, HarmonyError)
    card = object_among(facts, "card", path)
    network = _built(path, lambda: new_reward_model(config.size), tensors)
    network.eval()
    return LearnedSpeeds(network, config, card)


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
    entropy = seed_of(seed, Purpose.WEIGHTS).generate_state(1, np.uint64)[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(entropy >> np.uint64(1)))
        return make()


def _read(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, facts = load_tensors(path, _MAX_BYTES)
    if facts.get("format") != _FORMAT:
        raise HarmonyError(f"{path}: no model of harmony, or of another version of it")
    if facts.get("kind") != kind:
        raise HarmonyError(f"{path}: of kind {facts.get('kind')!r:.40}, where {kind!r} is needed")
    return tensors, facts


def _built(path: Path, make: Callable[[], Network], tensors: Mapping[str, Tensor]) -> Network:
    return load_halved(path, make, tensors, HarmonyError, MAX_PARAMETERS)
