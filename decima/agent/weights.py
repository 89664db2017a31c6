"""Weights of a network as arrays: all that decisions need, so that acting does not load torch.

`decima.agent.network.PolicyNetwork` has the same weights as tensors, for training.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from decima.agent import columns, forward_kernels
from decima.agent.forward_kernels import Networks
from gnn.config import EncoderConfig
from traces.numbers import Float32


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes, and the parts that an ablation leaves out."""

    embedding: int = 16
    """D"""
    hidden: tuple[int, ...] = (16,)
    """hidden layers of the encoder's transforms"""
    head_hidden: tuple[int, ...] = (32, 16)
    """hidden layers of the heads"""
    two_level: bool = True
    """False: no second transform in the sums"""
    messages: bool = True
    """False: no message passing, a stage's embedding holds only its own columns (Decima fig. 14)"""
    embeddings: bool = True
    """False: the heads see no embedding at all, only their columns"""
    path_columns: bool = True
    """False: the stage head does not see `columns.PATH`, so only messages carry the critical
    path"""
    limit_head: bool = True
    """False: a job gets all it can use (Decima fig. 14, "no parallelism control")"""

    def __post_init__(self) -> None:
        self.encoder()
        if not self.head_hidden or any(size < 1 for size in self.head_hidden):
            raise ValueError(f"head_hidden {self.head_hidden} must hold sizes of at least 1")

    def encoder(self) -> EncoderConfig:
        """Return the encoder's part; refuse impossible sizes."""
        return EncoderConfig(self.embedding, self.hidden, self.two_level, self.messages)


@dataclass(frozen=True, eq=False)
class NetworkWeights:
    """The weights of one network by name, as its `state_dict` names them."""

    config: NetworkConfig
    arrays: Mapping[str, Float32]

    def weights(self) -> NetworkWeights:
        """Return themselves, as a `Network` does."""
        return self


class Network(Protocol):
    """Protocol of what decides: `NetworkWeights`, or a `PolicyNetwork` that is still trained."""

    def weights(self) -> NetworkWeights:
        """Return the weights of now."""
        ...


def flattened(weights: NetworkWeights) -> Float32:
    """(P,) all weights, in the order of `weight_shapes`."""
    return np.concatenate([weights.arrays[name].ravel() for name in weight_shapes(weights.config)])


def unflattened(config: NetworkConfig, flat: Float32) -> NetworkWeights:
    """Return the network of which `flattened` gives these (P,) weights."""
    arrays: dict[str, Float32] = {}
    first = 0
    for name, shape in weight_shapes(config).items():
        last = first + math.prod(shape)
        arrays[name] = flat[first:last].reshape(shape)
        first = last
    return NetworkWeights(config, arrays)


def weight_shapes(config: NetworkConfig) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight, in the order of the network's `state_dict`."""
    return dict(_shapes(config))


def _shapes(config: NetworkConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    size, node = config.embedding, len(columns.NODE)
    yield from _linear_shapes("encoder.lift", node, size)
    for name, inputs in _SUMS.items():
        transform = (inputs * node + size, *config.hidden, size)
        yield from _transform_shapes(f"encoder.{name}.f", transform)
        if config.two_level:
            yield from _transform_shapes(f"encoder.{name}.g", (size, *config.hidden, size))
    for name, (tables, is_deep) in _HEADS.items():
        hidden = config.head_hidden if is_deep else config.head_hidden[-1:]
        for place, (extra, has_embedding) in enumerate(tables):
            inputs = extra + (size if has_embedding else 0)
            yield f"{name}.parts.{place}.weight", (hidden[0], inputs)
            if place == 0:
                yield f"{name}.parts.{place}.bias", (hidden[0],)
        for place, sizes in enumerate(itertools.pairwise(hidden)):
            yield from _linear_shapes(f"{name}.body.{place}", *sizes)
        yield from _linear_shapes(f"{name}.last", hidden[-1], 1)


def _linear_shapes(name: str, inputs: int, outputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _transform_shapes(name: str, sizes: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Shapes of a multilayer perceptron, whose activations have a number between its layers."""
    for place, pair in enumerate(itertools.pairwise(sizes)):
        yield from _linear_shapes(f"{name}.{2 * place}", *pair)


_SUMS = {"node_sum": 0, "job_sum": 1, "cluster_sum": 0}
"""the encoder's sums, and whether their senders have the columns of a node beside an embedding"""

_STAGE, _JOB, _CLUSTER = (
    (len(names), True) for names in (columns.STAGE, columns.JOB, columns.CLUSTER)
)
_LIMIT, _CLASS = (len(columns.LIMIT), False), (len(columns.CLASS), False)
_HEADS = {
    "stage_head": ((_STAGE, _JOB, _CLUSTER), True),
    "end_head": ((_CLUSTER,), False),
    "limit_head": ((_LIMIT, _JOB, _CLUSTER), True),
    "value_head": ((_CLUSTER,), True),
    "class_head": ((_CLASS, _STAGE, _JOB, _CLUSTER), True),
}
"""the tables of each head, (columns, whether an embedding comes first), and whether it has all
hidden layers or only the last"""


Layers = list[tuple[Float32, Float32]]  # (outputs, inputs) weight and (outputs,) bias of each


def packed(networks: Sequence[NetworkWeights]) -> Networks:
    """Copy networks of equal sizes into the compiled forward pass's form.

    Parts that are left out are zero.
    """
    parts = [_parts(weights) for weights in networks]
    count = np.array([len(part) for part in parts[0]])
    shape = np.array([weight.shape for part in parts[0] for weight, _ in part])
    outputs, inputs = shape.T
    size = (inputs + 1) * outputs
    flat = [
        np.concatenate([values for part in each for weight, bias in part
                        for values in (weight.T.reshape(-1), bias)])
        for each in parts
    ]  # fmt: skip
    return Networks(
        np.stack(flat).astype(np.float32),
        np.stack((inputs, outputs, np.cumsum(size) - size), axis=1),
        np.stack((np.cumsum(count) - count, count), axis=1),
    )


def _parts(weights: NetworkWeights) -> list[Layers]:
    """All parts, in the order of `forward_kernels`."""
    config, arrays = weights.config, weights.arrays
    parts = [_linear(arrays, "encoder.lift")]
    for name in _SUMS:
        parts.append(_transform(weights, f"encoder.{name}.f"))
        parts.append(_transform(weights, f"encoder.{name}.g") if config.two_level else [])
    for name in ("stage_head", "limit_head", "class_head", "end_head", "value_head"):
        tables, is_deep = _HEADS[name]
        body = len(config.head_hidden) - 1 if is_deep else 0
        behind = [*(f"{name}.body.{place}" for place in range(body)), f"{name}.last"]
        parts += [_linear(arrays, f"{name}.parts.{place}") for place in range(len(tables))]
        parts.append([layer for label in behind for layer in _linear(arrays, label)])
    size = config.embedding
    if not config.messages:
        # A second transform that adds nothing to a node.
        parts[forward_kernels.G_NODE] = [
            (np.zeros((size, size), np.float32), np.zeros(size, np.float32))
        ]
    is_observed = [config.path_columns or name not in columns.PATH for name in columns.STAGE]
    for part in (forward_kernels.STAGE_STAGE, forward_kernels.KIND_STAGE):
        parts[part] = _scaled(
            parts[part], [1.0] * size + [float(is_seen) for is_seen in is_observed]
        )
    if not config.embeddings:
        for part in _EMBEDDED:
            inputs = parts[part][0][0].shape[1]
            parts[part] = _scaled(parts[part], [0.0] * size + [1.0] * (inputs - size))
    return parts


def _scaled(part: Layers, factors: list[float]) -> Layers:
    """Return the single layer of a part with each of its inputs times a factor."""
    ((weight, bias),) = part
    return [(weight * np.array(factors, np.float32), bias)]


_EMBEDDED = (
    forward_kernels.STAGE_STAGE,
    forward_kernels.STAGE_JOB,
    forward_kernels.STAGE_CLUSTER,
    forward_kernels.LIMIT_JOB,
    forward_kernels.LIMIT_CLUSTER,
    forward_kernels.KIND_STAGE,
    forward_kernels.KIND_JOB,
    forward_kernels.KIND_CLUSTER,
    forward_kernels.END_CLUSTER,
    forward_kernels.VALUE_CLUSTER,
)
"""parts whose first inputs are an embedding"""


def _linear(arrays: Mapping[str, Float32], name: str) -> Layers:
    weight = arrays[f"{name}.weight"]
    bias = arrays.get(f"{name}.bias")
    return [(weight, np.zeros(len(weight), np.float32) if bias is None else bias)]


def _transform(weights: NetworkWeights, name: str) -> Layers:
    count = len(weights.config.hidden) + 1
    labels = [f"{name}.{2 * place}" for place in range(count)]
    return [layer for label in labels for layer in _linear(weights.arrays, label)]
