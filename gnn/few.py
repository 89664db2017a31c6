"""Embedding few nodes in compiled code: the face of `gnn.few_kernels`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gnn.few_kernels import Few, Layer, Layers, Weights, embed
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
        transforms: layers of f, g, f2, g2 and f3; None where g and g2 are left out.
        """
        f, g, f2, g2, f3 = transforms
        self._has_second = g is not None
        first, second = _layers(f), _layers(f2)
        self._weights = Weights(
            _layer(lift),
            first,
            first if g is None else _layers(g),
            second,
            second if g2 is None else _layers(g2),
            _layers(f3),
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


def _layers(transform: nn.ModuleList | None) -> Layers:
    if transform is None:
        raise ValueError("a first transform cannot be left out")
    return tuple(_layer(layer) for layer in transform if isinstance(layer, nn.Linear))


def _layer(layer: nn.Linear) -> Layer:
    weight = layer.weight.detach().numpy()
    bias = layer.bias.detach().numpy()
    return Layer(weight, bias, np.empty(weight.shape[::-1], weight.dtype), np.empty_like(bias))
