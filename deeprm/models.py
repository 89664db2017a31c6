"""Networks by name, and files of weights: safetensors, with the configuration beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decima.rl.checkpoint import load_tensors, object_among, save_tensors
from decima.rl.model_files import MAX_PARAMETERS, halved, header_settings, load_halved, outline
from deeprm.compact_policy import CompactPolicy
from deeprm.config import Config
from deeprm.errors import DeepRmError
from deeprm.image_policy import ImagePolicy
from deeprm.training_config import TrainConfig

AnyNetwork = ImagePolicy | CompactPolicy

NETWORKS: Mapping[str, Callable[[Config, torch.Generator | None], AnyNetwork]] = {
    "image": ImagePolicy,
    "compact": CompactPolicy,
}
"""by the name of what they see"""

_FORMAT = 1
_MAX_BYTES = 8 * MAX_PARAMETERS


def new_network(
    policy: str, config: Config, generator: torch.Generator | None = None
) -> AnyNetwork:
    """A network that has learned nothing, of the kind called `policy`."""
    return NETWORKS[policy](config, generator)


def check_size(config: TrainConfig) -> None:
    """Refuse a network that is too large, before anything of it is allocated.

    Raises:
        DeepRmError: a file of it could not be read.
    """
    outline(lambda: new_network(config.policy, config.cluster), DeepRmError)


class Model(NamedTuple):
    """Content of a file of weights."""

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
    facts = {"format": _FORMAT, "config": config.to_json(), "card": dict(card)}
    save_tensors(path, halved(weights), facts)


def load_model(path: Path) -> Model:
    """Load a file of `save_model`.

    Raises:
        DeepRmError: the file is no model of deeprm, belongs to another format, or its weights are
            not those of the network that its header names.
        RunError: it cannot be read, or its header lacks something.
    """
    tensors, facts = load_tensors(path, _MAX_BYTES)
    if facts.get("format") != _FORMAT:
        raise DeepRmError(f"{path}: no model of deeprm, or of another version of it")
    stored = object_among(facts, "config", path)
    config = header_settings(path, TrainConfig, stored, DeepRmError)
    card = object_among(facts, "card", path)

    def make() -> AnyNetwork:
        return new_network(config.policy, config.cluster)

    return Model(load_halved(path, make, tensors, DeepRmError), config, card)


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
