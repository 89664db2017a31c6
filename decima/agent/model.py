"""Model files: weights as safetensors, with all that is needed to use them in the header.

Beside ``NAME.safetensors`` lies the card ``NAME.json``: how the model was made and what it reached
on its validation sequences. The card is for people; loading reads the weights' own header, so the
two cannot come apart.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from decima.agent.columns import FEATURE_VERSION
from decima.agent.network import NetworkConfig, PolicyNetwork
from decima.rl.checkpoint import load_tensors, save_tensors
from traces.atomic import written_whole

FORMAT = "decima-model"
VERSION = 1
SUFFIX = ".safetensors"


class ModelError(ValueError):
    """A file that is no model, or a model that this version cannot use; one line."""


@dataclass(frozen=True, eq=False)
class Model:
    """A trained network and its card."""

    network: PolicyNetwork
    card: Mapping[str, Any]


def save_model(
    path: Path, config: NetworkConfig, weights: Mapping[str, Tensor], card: Mapping[str, Any]
) -> None:
    """Write the weights, then the card beside them.

    Raises:
        ModelError: the path does not end in `SUFFIX`.
        RunError: it cannot be written.
    """
    if path.suffix != SUFFIX:
        raise ModelError(f"{path}: a model's name ends in {SUFFIX}")
    header = {
        "format": FORMAT,
        "version": VERSION,
        "feature_version": FEATURE_VERSION,
        "network": asdict(config),
        "card": dict(card),
    }
    save_tensors(path, weights, header)
    with written_whole(path.with_suffix(".json")) as partial:
        partial.write_text(json.dumps(header, indent=2) + "\n")


def load_model(path: Path) -> Model:
    """The model in a file. Nothing in it is executed.

    Raises:
        ModelError: not a model, one of another version or for other features, or damaged.
        RunError: the file cannot be read.
    """
    weights, header = load_tensors(path)
    if header.get("format") != FORMAT:
        raise ModelError(f"{path}: not a model of `decima train`")
    if header.get("version") != VERSION:
        raise ModelError(f"{path}: version {header.get('version')!r}, this reader knows {VERSION}")
    if header.get("feature_version") != FEATURE_VERSION:
        raise ModelError(
            f"{path}: trained on feature version {header.get('feature_version')!r}, this program "
            f"computes version {FEATURE_VERSION}; train it again"
        )
    network = PolicyNetwork(_config(path, header.get("network")))
    expected = {name: value.shape for name, value in network.state_dict().items()}
    found = {name: value.shape for name, value in weights.items()}
    if found != expected:
        name = next(iter(sorted(set(found) ^ set(expected))), None) or next(
            name for name in expected if expected[name] != found[name]
        )
        raise ModelError(f"{path}: weights {name!r} do not fit the network that its header names")
    for name, value in weights.items():
        if not math.isfinite(float(value.double().abs().sum())):
            raise ModelError(f"{path}: weights {name!r} are not all finite")
    network.load_state_dict(weights)
    network.eval()
    return Model(network, header.get("card", {}))


@lru_cache(maxsize=8)
def shared_model(path: Path) -> Model:
    """`load_model`, once in a process; nobody may change the weights."""
    return load_model(path)


def _config(path: Path, stored: object) -> NetworkConfig:
    if not isinstance(stored, dict):
        raise ModelError(f"{path}: its header names no network")
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()
    }
    try:
        return NetworkConfig(**values)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{path}: its header names an impossible network: {error}") from error
