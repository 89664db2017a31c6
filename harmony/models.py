"""Networks, and files of weights: safetensors, with the configuration beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from files.settings import build
from harmony.errors import HarmonyError
from harmony.jobs import Purpose, seed_of
from harmony.network import ActorCritic, RewardModel, Size
from harmony.reward_config import RewardConfig
from harmony.training_config import TrainConfig
from rl.checkpoint import load_tensors, object_among, save_tensors

Network = TypeVar("Network", bound=nn.Module)

_FORMAT = "harmony-1"
_MAX_BYTES = 2**26


def new_network(size: Size, seed: int = 0) -> ActorCritic:
    """A policy and a critic that have learned nothing."""
    return _seeded(seed, lambda: ActorCritic(size))


def new_reward_model(size: Size, seed: int = 0) -> RewardModel:
    """A reward model that has learned nothing."""
    return _seeded(seed, lambda: RewardModel(size))


class Model(NamedTuple):
    """What a file of weights of a policy holds."""

    network: ActorCritic
    config: TrainConfig
    """of the training"""
    card: dict[str, Any]
    """how the training went"""


class LearnedSpeeds(NamedTuple):
    """What a file of weights of a reward model holds."""

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
    half = {n: one.half() if one.is_floating_point() else one for n, one in weights.items()}
    facts = {"format": _FORMAT, **described(config), "card": dict(card)}
    save_tensors(path, half, facts)


def described(config: TrainConfig | RewardConfig) -> dict[str, Any]:
    """What is trained, and how, as plain JSON."""
    kind = "policy" if isinstance(config, TrainConfig) else "reward model"
    return {"kind": kind, "config": config.to_json()}


def load_model(path: Path) -> Model:
    """A policy that `save_model` wrote.

    Raises:
        HarmonyError: the file is no such model of ours.
        RunError: it cannot be read, or its header lacks something.
    """
    tensors, facts = _read(path, "policy")
    config = build(TrainConfig, object_among(facts, "config", path), HarmonyError)
    card = object_among(facts, "card", path)
    network = new_network(config.size)
    _load(path, network, tensors)
    return Model(network, config, card)


def load_reward_model(path: Path) -> LearnedSpeeds:
    """A reward model that `save_model` wrote.

    Raises:
        HarmonyError: the file is no such model of ours.
        RunError: it cannot be read, or its header lacks something.
    """
    tensors, facts = _read(path, "reward model")
    config = build(RewardConfig, object_among(facts, "config", path), HarmonyError)
    card = object_among(facts, "card", path)
    network = new_reward_model(config.size)
    _load(path, network, tensors)
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


def _load(path: Path, network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    needed = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    if {name: tuple(tensor.shape) for name, tensor in tensors.items()} != needed:
        raise HarmonyError(f"{path}: its weights are not those of a network of its size")
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise HarmonyError(f"{path}: {name} holds numbers that are not finite")
    network.load_state_dict(
        {name: one.float() if one.is_floating_point() else one for name, one in tensors.items()}
    )
