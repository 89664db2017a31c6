r"""Compiled: `Encoder.embed` of few nodes, where no gradient is wanted.

Of a few jobs at a time, as a live decision or a step of a rollout embeds them, torch's operations
take sixty times as long as their arithmetic: a dozen calls a level. Of thousands of nodes torch's
matrix products are the faster ones (benchmark `encoder_speed`, which pays for this file).
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gnn.kernels import inlined_kernel, kernel

Real = TypeVar("Real", NDArray[np.float32], NDArray[np.float64])
Rows = NDArray[np.int64]


class Layer(NamedTuple):
    """One layer of a transform."""

    weight: NDArray[np.float32]  # (outputs, inputs)
    bias: NDArray[np.float32]  # (outputs,)
    turned: NDArray[np.float32]  # (inputs, outputs) scratch: the weight transposed
    out: NDArray[np.float32]  # (outputs,) scratch: what it makes of one row


Layers = tuple[Layer, ...]


class Weights(NamedTuple):
    """All transforms of an encoder. A second one that is left out has the layers of the first."""

    lift: Layer
    f_node: Layers
    g_node: Layers
    f_job: Layers
    g_job: Layers
    f_cluster: Layers


class Few(NamedTuple):
    """V nodes by level, E edges by the level of their child (`gnn.levels.Levels`), J jobs."""

    x: NDArray[np.float32]  # (V, F)
    job: Rows  # (V,)
    node_ptr: Rows  # (L + 1,)
    child: Rows  # (E,)
    parent: Rows  # (E,)
    edge_ptr: Rows  # (L,)
    sums: NDArray[np.float32]  # (V, D) zeros: what the children of a node send
    sent: NDArray[np.float32]  # (V, D) scratch
    joined: NDArray[np.float32]  # (F + D,) scratch: [x_v, e_v]
    job_sums: NDArray[np.float32]  # (J, D) zeros
    e: NDArray[np.float32]  # (V, D) filled
    y: NDArray[np.float32]  # (J, D) filled
    added: NDArray[np.float32]  # (J, D) filled: f3(y_i)


@kernel
def embed(at: Few, weights: Weights, has_messages: bool, has_second: bool, slope: float) -> None:
    """Fill `e`, `y` and `added`.

    Args:
        at: nodes, edges and jobs.
        weights: of the encoder.
        has_messages: False where the ablation leaves out the graph.
        has_second: False where the ablation leaves out the second transforms.
        slope: of LeakyReLU below zero.
    """
    _turn(weights.lift)
    for layers in (
        weights.f_node, weights.g_node, weights.f_job, weights.g_job, weights.f_cluster,
    ):  # fmt: skip
        for layer in layers:
            _turn(layer)
    _climb(at, weights, has_messages, has_second, slope)
    features = at.x.shape[1]
    for node in range(len(at.x)):
        _copy(at.x[node], at.joined)
        _copy(at.e[node], at.joined[features:])
        _transform(weights.f_job, at.joined, slope)
        _add(weights.f_job[-1].out, at.job_sums[at.job[node]])
    for job in range(len(at.y)):
        if has_second:
            _transform(weights.g_job, at.job_sums[job], slope)
            _copy(weights.g_job[-1].out, at.y[job])
        else:
            _copy(at.job_sums[job], at.y[job])
        _transform(weights.f_cluster, at.y[job], slope)
        _copy(weights.f_cluster[-1].out, at.added[job])


@inlined_kernel
def _climb(at: Few, weights: Weights, has_messages: bool, has_second: bool, slope: float) -> None:
    """Level by level: finish the sums, embed, and send to all levels above."""
    levels = len(at.node_ptr) - 1
    for level in range(levels):
        for node in range(at.node_ptr[level], at.node_ptr[level + 1]):
            _apply(weights.lift, at.x[node])
            _copy(weights.lift.out, at.e[node])
            if level > 0 and has_messages:
                if has_second:
                    _transform(weights.g_node, at.sums[node], slope)
                    _add(weights.g_node[-1].out, at.e[node])
                else:
                    _add(at.sums[node], at.e[node])
            if level < levels - 1 and has_messages:
                _transform(weights.f_node, at.e[node], slope)
                _copy(weights.f_node[-1].out, at.sent[node])
        if level < levels - 1 and has_messages:
            for edge in range(at.edge_ptr[level], at.edge_ptr[level + 1]):
                _add(at.sent[at.child[edge]], at.sums[at.parent[edge]])


@inlined_kernel
def _transform(layers: Layers, values: Real, slope: float) -> None:
    """A multilayer perceptron of one row; the result is `out` of its last layer."""
    _apply(layers[0], values)
    for number in range(1, len(layers)):
        hidden = layers[number - 1].out
        for column in range(len(hidden)):
            if hidden[column] < 0.0:
                hidden[column] *= slope
        _apply(layers[number], hidden)


@inlined_kernel
def _apply(layer: Layer, values: Real) -> None:
    """One layer of one row. Inputs outside, so that the inner loop is over neighbours."""
    _copy(layer.bias, layer.out)
    for row in range(len(values)):
        factor = values[row]
        for column in range(len(layer.out)):
            layer.out[column] += factor * layer.turned[row, column]


@inlined_kernel
def _turn(layer: Layer) -> None:
    for column in range(layer.weight.shape[0]):
        for row in range(layer.weight.shape[1]):
            layer.turned[row, column] = layer.weight[column, row]


@inlined_kernel
def _copy(source: Real, target: Real) -> None:
    for column in range(len(source)):
        target[column] = source[column]


@inlined_kernel
def _add(source: Real, target: Real) -> None:
    for column in range(len(source)):
        target[column] += source[column]
