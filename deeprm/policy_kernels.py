"""The network's first layer as sums of table rows, its gradient, and drawing an action.

Letters: n decisions, K rectangles of each, R rows of the table, H hidden units, A actions.
"""

from __future__ import annotations

import math

from deeprm.compile import kernel
from deeprm.tables import NONE, Float32, Float64, Int16, Int32


@kernel
def sum_rows(table: Float32, chosen: Int16, total: Float32) -> None:
    """Add to (n, H) `total` the rows of the (R, H) table that (n, K) `chosen` names."""
    for i in range(chosen.shape[0]):
        for k in range(chosen.shape[1]):
            row = chosen[i, k]
            if row != NONE:
                for h in range(table.shape[1]):
                    total[i, h] += table[row, h]


@kernel
def spread_rows(gradient: Float32, chosen: Int16, table: Float32) -> None:
    """Add each row of the (n, H) gradient to the rows of the (R, H) table that it was summed of."""
    for i in range(chosen.shape[0]):
        for k in range(chosen.shape[1]):
            row = chosen[i, k]
            if row != NONE:
                for h in range(table.shape[1]):
                    table[row, h] += gradient[i, h]


@kernel
def scores(hidden: Float32, weight: Float32, bias: Float32, found: Float32) -> None:
    """Write (n, A) scores of the (n, H) hidden units; those below 0 are silent.

    Row by row and in one order, so that they do not depend on who plays beside.
    """
    for i in range(hidden.shape[0]):
        for a in range(weight.shape[0]):
            found[i, a] = bias[a]
        for h in range(hidden.shape[1]):
            if hidden[i, h] > 0.0:
                for a in range(weight.shape[0]):
                    found[i, a] += weight[a, h] * hidden[i, h]


@kernel
def draw_action(score: Float32, chance: Float64, action: Int32) -> None:
    r"""Draw from the softmax of (n, A) scores by (n,) numbers in [0, 1).

    A chance below 0 takes the highest score instead, of equal ones the first. A score of
    :math:`-\infty` is never drawn.
    """
    for i in range(score.shape[0]):
        best = 0
        for a in range(score.shape[1]):
            if score[i, a] > score[i, best]:
                best = a
        total = 0.0
        for a in range(score.shape[1]):
            total += math.exp(score[i, a] - score[i, best])
        left = chance[i] * total
        action[i] = best
        if chance[i] >= 0.0:
            for a in range(score.shape[1]):
                share = math.exp(score[i, a] - score[i, best])
                if left < share:
                    action[i] = a
                    break
                left -= share
