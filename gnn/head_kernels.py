"""Compiled: `Head.forward` of few rows, where no gradient is wanted (benchmark `policy_speed`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gnn.kernels import kernel
from gnn.layer_kernels import Layers, add, add_product, bend, copy, transform, turn, turn_all

Reals = NDArray[np.float32]
Rows = NDArray[np.int64]


@kernel
def score(
    tables: tuple[Reals, ...],
    index: tuple[Rows, ...],
    parts: Layers,
    mapped: tuple[Reals, ...],
    body: Layers,
    slope: float,
    out: Reals,
) -> None:
    """Fill `out` (rows,).

    Args:
        tables: of each part, the rows that it maps.
        index: of each part, the row of its table that each row of the result uses; empty where it
            is the row of the same number.
        parts: the first layer, a part for each table.
        mapped: of each part, scratch for what it makes of its table.
        body: the layers behind, at least one.
        slope: of LeakyReLU below zero.
        out: the result.
    """
    turn_all(body)
    for number in range(len(parts)):
        turn(parts[number])
        for row in range(len(tables[number])):
            copy(parts[number].bias, mapped[number][row])
            add_product(parts[number].turned, tables[number][row], mapped[number][row])
    hidden = parts[0].out
    for row in range(len(out)):
        hidden[:] = 0.0
        for number in range(len(parts)):
            source = index[number][row] if len(index[number]) > 0 else row
            add(mapped[number][source], hidden)
        bend(hidden, slope)
        transform(body, hidden, slope)
        out[row] = body[len(body) - 1].out[0]
