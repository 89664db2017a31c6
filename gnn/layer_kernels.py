"""Compiled: layers of one row at a time, for `gnn.few_kernels` and `gnn.head_kernels`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnn.kernels import inlined_kernel

Real = NDArray[np.float32]
"""or of doubles: each kernel is compiled for what it is given"""


class Layer(NamedTuple):
    """One layer of a perceptron."""

    weight: NDArray[np.float32]  # (outputs, inputs)
    bias: NDArray[np.float32]  # (outputs,)
    turned: NDArray[np.float32]  # (inputs, outputs) scratch: the weight transposed
    out: NDArray[np.float32]  # (outputs,) scratch: what it makes of one row


Layers = tuple[Layer, ...]


@inlined_kernel
def turn_all(layers: Layers) -> None:
    for layer in layers:
        turn(layer)


@inlined_kernel
def turn(layer: Layer) -> None:
    """Bring `turned` up to date: weights are trained in place."""
    for column in range(layer.weight.shape[0]):
        for row in range(layer.weight.shape[1]):
            layer.turned[row, column] = layer.weight[column, row]


@inlined_kernel
def transform(layers: Layers, values: Real, slope: float) -> None:
    """A multilayer perceptron of one row; the result is `out` of its last layer."""
    apply(layers[0], values)
    for number in range(1, len(layers)):
        bend(layers[number - 1].out, slope)
        apply(layers[number], layers[number - 1].out)


@inlined_kernel
def bend(values: Real, slope: float) -> None:
    """LeakyReLU in place."""
    for column in range(len(values)):
        if values[column] < 0.0:
            values[column] *= slope


@inlined_kernel
def apply(layer: Layer, values: Real) -> None:
    """One layer of one row. Inputs outside, so that the inner loop is over neighbours."""
    copy(layer.bias, layer.out)
    add_product(layer.turned, values, layer.out)


@inlined_kernel
def add_product(turned: Real, values: Real, target: Real) -> None:
    for row in range(len(values)):
        factor = values[row]
        for column in range(len(target)):
            target[column] += factor * turned[row, column]


@inlined_kernel
def copy(source: Real, target: Real) -> None:
    for column in range(len(source)):
        target[column] = source[column]


@inlined_kernel
def add(source: Real, target: Real) -> None:
    for column in range(len(source)):
        target[column] += source[column]
