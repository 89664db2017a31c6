"""Networks by name, and files of weights: safetensors, with the configuration beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from deeprm.compact_policy import CompactPolicy
from deeprm.config import Config
from deeprm.errors import DeepRmError
from deeprm.image_policy import ImagePolicy
from deeprm.training_config import TrainConfig
from files.settings import build
from rl.checkpoint import load_tensors, object_among, save_tensors

AnyNetwork = ImagePolicy | CompactPolicy

NETWORKS: Mapping[str, Callable[[Config, torch.Generator | None], AnyNetwork]] = {
    "image": ImagePolicy,
    "compact": CompactPolicy,
}
"""by the name of what they see"""

_FORMAT = 1
_MAX_BYTES = 2**26


def new_network(
    policy: str, config: Config, generator: torch.Generator | None = None
) -> AnyNetwork:
    """A network that has learned nothing, of the kind called `policy`."""
    return NETWORKS[policy](config, generator)


class Model(NamedTuple):
    """What a file of weights holds."""

    network: AnyNetwork
    config: TrainConfig
    """of the training"""
    card: dict[str, Any]
    """how the training went"""


def save_model(
    path: Path, config: TrainConfig, weights: Mapping[str, Tensor], card: Mapping[str, object]
) -> None:
    """Write weights as 16-bit numbers, with the configuration of their training.

    Raises:
        RunError: the file cannot be written.
    """
    half = {name: tensor.half() for name, tensor in weights.items()}
    facts = {"format": _FORMAT, "config": config.to_json(), "card": dict(card)}
    save_tensors(path, half, facts)


def load_model(path: Path) -> Model:
    """What `save_model` wrote.

    Raises:
        DeepRmError: the file is no model of ours, or belongs to another format.
        RunError: it cannot be read, or its header lacks something.
    """
    tensors, facts = load_tensors(path, _MAX_BYTES)
    if facts.get("format") != _FORMAT:
        raise DeepRmError(f"{path}: no model of deeprm, or of another version of it")
    config = build(TrainConfig, object_among(facts, "config", path), DeepRmError)
    card = object_among(facts, "card", path)
    network = new_network(config.policy, config.cluster)
    _check_weights(path, network, tensors)
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return Model(network, config, card)


def check_same_network(model: Model, config: TrainConfig) -> None:
    """Refuse a model whose weights a training with `config` cannot begin with.

    Raises:
        DeepRmError: it is of another kind, or made for a cluster of another shape.
    """
    if model.config.policy != config.policy or not model.network.fits(config.cluster):
        raise DeepRmError(
            f"a model on {model.config.policy} of its cluster cannot begin a training on "
            f"{config.policy}, or its cluster has another shape"
        )


def _check_weights(path: Path, network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    needed = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != needed:
        raise DeepRmError(f"{path}: weights of shapes {found}, the network needs {needed}")
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise DeepRmError(f"{path}: {name} holds numbers that are not finite")
