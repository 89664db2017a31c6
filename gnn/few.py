"""Embedding few nodes in compiled code: the face of `gnn.few_kernels`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from gnn.few_kernels import Few, Weights, embed, summarise
from gnn.layer_kernels import Layer, Layers, Real

Int64 = NDArray[np.int64]
Rows = tuple[Real, Real, Real]


class Flow(NamedTuple):
    """How messages flow between V nodes of J jobs: `gnn.levels.Levels` as arrays, and the jobs."""

    job: Int64  # (V,)
    node_ptr: Int64  # (L + 1,)
    child: Int64  # (E,)
    parent: Int64  # (E,)
    edge_ptr: Int64  # (L + 1,)


class FewNodes:
    """The weights of an encoder as compiled code reads them; they share the memory of its own."""

    def __init__(
        self,
        lift: nn.Linear,
        transforms: Iterable[nn.ModuleList | None],
        messages: bool,
        slope: float,
    ) -> None:
        """Args:
        lift: A.
        transforms: layers of f, g, f2, g2, f3 and g3; None where g, g2 and g3 are left out.
        messages: False where the ablation leaves out the graph.
        slope: of LeakyReLU below zero.
        """
        self._messages, self._slope = messages, slope
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

    def embed(self, x: Real, flow: Flow, num_jobs: int) -> Rows:
        """As `Encoder.embed`, but for rounding; e, y and added."""
        nodes, features = x.shape
        size, kind = len(self._weights.lift.bias), x.dtype
        zeros = np.zeros((nodes + num_jobs, size), kind)
        filled = np.empty((2 * nodes + 2 * num_jobs, size), kind)
        sent, e = filled[:nodes], filled[nodes : 2 * nodes]
        y, added = filled[2 * nodes : 2 * nodes + num_jobs], filled[2 * nodes + num_jobs :]
        at = Few(
            x,
            *flow,
            zeros[:nodes],
            sent,
            np.empty(features + size, kind),
            zeros[nodes:],
            e,
            y,
            added,
        )
        embed(at, self._weights, self._messages, self._has_second, self._slope)
        return e, y, added

    def cluster(self, added: Real, observation: Int64, num_observations: int) -> Real:
        """As `Encoder.cluster`, but for rounding."""
        z = np.zeros((num_observations, added.shape[1]), added.dtype)
        jobs = np.zeros(num_observations, np.int64)
        layers = self._weights.g_cluster
        summarise(added, observation, jobs, z, layers, self._has_second, self._slope)
        return z


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
