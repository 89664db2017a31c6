"""`Head`: one score for each row, from rows of several tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, linear

from gnn.encoder import NEGATIVE_SLOPE
from gnn.few import layer_of
from gnn.head_kernels import score

FEW_ROWS = 200
"""so many are scored in compiled code where no gradient is wanted (benchmark `encoder_speed`)"""


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
        self._few: tuple[tuple[int, torch.dtype], FewRows] | None = None

    def forward(self, *tables: tuple[Tensor, Tensor | None]) -> Tensor:
        """(rows,) one score for each row.

        Args:
            tables: (values, index) pairs: row r of the result uses values[index[r]], or values[r]
                where the index is None.
        """
        values, index = tables[0]
        rows = len(values) if index is None else len(index)
        if rows <= FEW_ROWS and not torch.is_grad_enabled():
            return self._few_rows().score(tables, rows)
        # Layers serve for their weights: a call of a module costs more than its arithmetic where
        # there are few rows.
        total, *others = itertools.starmap(_mapped, zip(_layers(self.parts), tables, strict=True))
        for other in others:
            total = total + other
        for layer in (*_layers(self.body), self.last):
            total = linear(leaky_relu(total, NEGATIVE_SLOPE), layer.weight, layer.bias)
        return total.squeeze(1)

    def _few_rows(self) -> FewRows:
        """The weights where they are now, as `Encoder` looks at its own."""
        place = (self.last.weight.data_ptr(), self.last.weight.dtype)
        if self._few is None or self._few[0] != place:
            layers = (*_layers(self.body), self.last)
            self._few = place, FewRows(_layers(self.parts), layers)
        return self._few[1]


class FewRows:
    """The weights of a head as compiled code reads them; they share the memory of its own."""

    def __init__(self, parts: Iterable[nn.Linear], body: Iterable[nn.Linear]) -> None:
        """Args:
        parts: the first layer, one for each table.
        body: the layers behind.
        """
        self._parts = tuple(layer_of(part) for part in parts)
        self._body = tuple(layer_of(layer) for layer in body)

    def score(self, tables: tuple[tuple[Tensor, Tensor | None], ...], rows: int) -> Tensor:
        """As `Head.forward`, but for rounding."""
        values = tuple(table.numpy() for table, _ in tables)
        index = tuple(_EVERY if rows_of is None else rows_of.numpy() for _, rows_of in tables)
        kind = self._body[0].weight.dtype
        hidden = len(self._parts[0].out)
        mapped = tuple(np.empty((len(table), hidden), kind) for table in values)
        out = np.empty(rows, kind)
        score(values, index, self._parts, mapped, self._body, NEGATIVE_SLOPE, out)
        return torch.from_numpy(out)


_EVERY = np.empty(0, np.int64)


def _mapped(part: nn.Linear, table: tuple[Tensor, Tensor | None]) -> Tensor:
    values, index = table
    mapped = linear(values, part.weight, part.bias)
    return mapped if index is None else mapped.index_select(0, index)


def _layers(modules: nn.ModuleList) -> Iterable[nn.Linear]:
    return cast(Iterable[nn.Linear], modules)
