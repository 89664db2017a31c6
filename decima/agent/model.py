"""Model files: weights as safetensors, with all that is needed to use them in the header.

The card ``NAME.json`` beside ``NAME.safetensors`` documents how the model was made and what it
reached on its validation sequences. Loading reads the weights' own header instead, so a lost or
changed card does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decima.agent.columns import FEATURE_VERSION
from decima.agent.weights import NetworkConfig, NetworkWeights, weight_shapes
from decima.errors import ConfigError
from decima.rl.checkpoint import load_arrays
from decima.rl.errors import RunError
from decima.rl.model_files import (
    MAX_PARAMETERS,
    check_count,
    check_layers,
    check_weights,
    header_settings,
)
from traces.files.reading import check_format
from traces.files.writing import write_json

if TYPE_CHECKING:
    from torch import Tensor

    from decima.agent.network import PolicyNetwork

FORMAT = "decima-model"
VERSION = 1
SUFFIX = ".safetensors"

MAX_BYTES = 8 * MAX_PARAMETERS
"""largest model file: twice the size of the largest network's weights"""


class ModelError(ValueError):
    """Error of a file that is no model, or a model that this version cannot use; one line."""


@dataclass(frozen=True, eq=False)
class Model:
    """Weights of a trained network, and its card."""

    weights: NetworkWeights
    card: Mapping[str, Any]

    @cached_property
    def network(self) -> PolicyNetwork:
        """The network for training, which loads torch."""
        import torch

        from decima.agent.network import PolicyNetwork

        network = PolicyNetwork(self.weights.config)
        arrays = self.weights.arrays.items()
        network.load_state_dict({name: torch.from_numpy(values) for name, values in arrays})
        return network.eval()


def save_model(
    path: Path, config: NetworkConfig, weights: Mapping[str, Tensor], card: Mapping[str, Any]
) -> None:
    """Write the weights, then the card beside them."""
    if path.suffix != SUFFIX:
        raise ModelError(f"{path}: a model's name ends in {SUFFIX}")
    header = {
        "format": FORMAT,
        "version": VERSION,
        "feature_version": FEATURE_VERSION,
        "network": asdict(config),
        "card": dict(card),
    }
    from decima.rl.checkpoint import save_tensors

    save_tensors(path, weights, header)
    write_json(path.with_suffix(".json"), header, RunError)


def load_model(path: Path) -> Model:
    """Read the model in a file; ModelError if this version cannot use it.

    Nothing in it is executed. The sizes that its header names are compared with the weights in the
    file.
    """
    arrays, header = load_arrays(path, MAX_BYTES)
    check_format(header, path, (FORMAT, VERSION), "not a model of `decima train`", ModelError)
    if header.get("feature_version") != FEATURE_VERSION:
        raise ModelError(
            f"{path}: trained on feature version {header.get('feature_version')!r}, this program "
            f"computes version {FEATURE_VERSION}; train it again"
        )
    config, card = _config(path, header.get("network")), header.get("card", {})
    if not isinstance(card, dict):
        raise ModelError(f"{path}: its header's card is {card!r:.40}, not an object")
    expected = {
        name: (shape, np.dtype(np.float32)) for name, shape in weight_shapes(config).items()
    }
    check_weights(path, expected, arrays, ModelError)
    return Model(NetworkWeights(config, arrays), card)


@lru_cache(maxsize=8)
def shared_model(path: Path) -> Model:
    """Load a model once in a process. Do not change the weights: they are shared."""
    return load_model(path)


def check_size(config: NetworkConfig) -> None:
    """Refuse (ModelError) a network that is too large, before allocating it."""
    layers = {"hidden": config.hidden, "head_hidden": config.head_hidden}
    check_layers({**layers, "embedding": (config.embedding,)}, ModelError)
    check_count(sum(map(prod, weight_shapes(config).values())), ModelError)


def _config(path: Path, stored: object) -> NetworkConfig:
    if not isinstance(stored, dict):
        raise ModelError(f"{path}: its header names no network")
    try:
        config = header_settings(path, NetworkConfig, stored, ConfigError)
    except ConfigError as error:
        raise ModelError(str(error)) from error
    try:
        check_size(config)
    except ModelError as error:
        raise ModelError(f"{path}: its header names an impossible network: {error}") from error
    return config
