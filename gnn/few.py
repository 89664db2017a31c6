"""Embedding few nodes in compiled code: the face of `gnn.few_kernels`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gnn.few_kernels import Few, Weights, embed, summarise
from gnn.layer_kernels import Layer, Layers
from gnn.levels import Levels


class Embedded(NamedTuple):
    """What an encoder makes of V nodes of J jobs."""

    e: Tensor  # (V, D) e_v, in the order of the nodes
    y: Tensor  # (J, D) y_i
    added: Tensor  # (J, D) f3(y_i), what each job brings to the mean of its observation


class FewNodes:
    """The weights of an encoder as compiled code reads them; they share the memory of its own."""

    def __init__(self, lift: nn.Linear, transforms: Iterable[nn.ModuleList | None]) -> None:
        """Args:
        lift: A.
        transforms: layers of f, g, f2, g2, f3 and g3; None where g, g2 and g3 are left out.
        """
        f, g, f2, g2, f3, g3 = transforms
        self._has_second = g is not None
        first, second, third = _layers(f), _layers(f2), _layers(f3)
        self._weights = Weights(
            layer_of(lift),
            first,
            first if g is None else _layers(g),
            second,
            second if g2 is None else _layers(g2),
            third,
            third if g3 is None else _layers(g3),
        )

    def embed(
        self, x: Tensor, levels: Levels, job: Tensor, num_jobs: int, *, messages: bool, slope: float
    ) -> Embedded:
        """As `Encoder.embed`, but for rounding."""
        values = x.numpy()
        nodes, features = values.shape
        size, kind = len(self._weights.lift.bias), values.dtype
        zeros = np.zeros((nodes + num_jobs, size), kind)
        filled = np.empty((2 * nodes + 2 * num_jobs, size), kind)
        sent, e = filled[:nodes], filled[nodes : 2 * nodes]
        y, added = filled[2 * nodes : 2 * nodes + num_jobs], filled[2 * nodes + num_jobs :]
        embed(
            Few(
                values,
                job.numpy(),
                np.array(levels.node_ptr),
                levels.child.numpy(),
                levels.parent.numpy(),
                np.array(levels.edge_ptr),
                zeros[:nodes],
                sent,
                np.empty(features + size, kind),
                zeros[nodes:],
                e,
                y,
                added,
            ),
            self._weights,
            messages,
            self._has_second,
            slope,
        )
        return Embedded(torch.from_numpy(e), torch.from_numpy(y), torch.from_numpy(added))

    def cluster(
        self, added: Tensor, observation: Tensor, num_observations: int, *, slope: float
    ) -> Tensor:
        """As `Encoder.cluster`, but for rounding."""
        values = added.numpy()
        z = np.zeros((num_observations, values.shape[1]), values.dtype)
        jobs = np.zeros(num_observations, np.int64)
        layers = self._weights.g_cluster
        summarise(values, observation.numpy(), jobs, z, layers, self._has_second, slope)
        return torch.from_numpy(z)


def _layers(transform: nn.ModuleList | None) -> Layers:
    if transform is None:
        raise ValueError("a first transform cannot be left out")
    return tuple(layer_of(layer) for layer in transform if isinstance(layer, nn.Linear))


def layer_of(layer: nn.Linear) -> Layer:
    """The layer's weights, where they are; a layer without a bias has zeros."""
    weight = layer.weight.detach().numpy()
    zeros = np.zeros(len(weight), weight.dtype)
    bias = zeros if layer.bias is None else layer.bias.detach().numpy()
    return Layer(weight, bias, np.empty(weight.shape[::-1], weight.dtype), np.empty_like(zeros))
