"""`Head`: one score for each row, from rows of several tables."""

from __future__ import annotations

import itertools

from torch import Tensor, nn
from torch.nn.functional import leaky_relu

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
        parts = [*zip(self.parts, tables, strict=True)]
        part, (values, _) = parts[-1]
        total: Tensor = part(values)
        for part, (values, index) in parts[-2::-1]:
            if index is None:
                raise ValueError("only the last table of a head goes without an index")
            total = part(values) + total.index_select(0, index)
        for layer in (*self.body, self.last):
            total = layer(leaky_relu(total, NEGATIVE_SLOPE, inplace=True))
        return total.squeeze(1)
