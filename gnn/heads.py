"""`Head`: one score for each row, from rows of several tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import cast

from torch import Tensor, nn
from torch.nn.functional import leaky_relu_, linear

from gnn.encoder import NEGATIVE_SLOPE


class Head(nn.Module):
    """A multilayer perceptron on the concatenation of rows of several tables.

    The first layer is applied to each table before its rows are repeated, which is the same and
    costs less: a job has one row for all its stages. The last layer starts at zero.
    """

    def __init__(self, inputs: tuple[int, ...], hidden: tuple[int, ...]) -> None:
        """Draw the initial weights from torch's global generator.

        Args:
            inputs: columns of each table, at least one.
            hidden: sizes of the hidden layers, at least one.
        """
        super().__init__()
        if not inputs or not hidden:
            raise ValueError(f"a head of tables {inputs} and hidden layers {hidden} needs both")
        self.parts = nn.ModuleList(
            nn.Linear(size, hidden[0], bias=index == 0) for index, size in enumerate(inputs)
        )
        self.body = nn.ModuleList(nn.Linear(*sizes) for sizes in itertools.pairwise(hidden))
        self.last = nn.Linear(hidden[-1], 1)
        total = sum(inputs)
        for part in self.parts:
            nn.init.normal_(part.get_parameter("weight"), std=(2 / total) ** 0.5)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, *tables: tuple[Tensor, Tensor | None]) -> Tensor:
        """(rows,) one score for each row of the first table.

        Args:
            tables: (values, index) pairs from fine to coarse: row r goes with row index[r] of the
                next table. The last has no index: None.
        """
        # Layers serve for their weights: a call of a module costs more than its arithmetic where
        # there are few rows.
        pairs = [*zip(_layers(self.parts), tables, strict=True)]
        part, (values, _) = pairs[-1]
        total = linear(values, part.weight, part.bias)
        for part, (values, index) in pairs[-2::-1]:
            if index is None:
                raise ValueError("only the last table of a head goes without an index")
            total = linear(values, part.weight, part.bias).add_(total.index_select(0, index))
        for layer in (*_layers(self.body), self.last):
            total = linear(leaky_relu_(total, NEGATIVE_SLOPE), layer.weight, layer.bias)
        return total.squeeze(1)


def _layers(modules: nn.ModuleList) -> Iterable[nn.Linear]:
    return cast(Iterable[nn.Linear], modules)
