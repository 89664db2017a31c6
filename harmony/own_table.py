"""Interference of one's own models, from a file.

JSON: `models`, a list of objects, and `ratio`, a square table: what share of its speed alone the
job of the row keeps beside the one of the column. A model has

* `name`;
* `epochs_per_min`, of one worker alone;
* `scaling` (1): with twice the workers it is 2 to this power times as fast;
* `spread` (1): share of its speed with one task on each server, over four on each;
* `worker` and `ps`: GPUs, cores, GB and Gbit/s of one such task (1, 2, 8, 5 and 0, 1, 4, 5);
* `cores` (2) and `gbps` (5) that a worker keeps busy, for `speed = "analytic"`;
* `largest_tensor` (0): its share of the model; from 0.5 Tiresias puts workers together.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from harmony.tables import Float64, Int32, K
from traces.files.names import is_clean
from traces.files.numbers import is_number
from traces.files.reading import read_json

MOST_MODELS = 64
_MOST_BYTES = 2**20
_NUMBERS: Mapping[str, tuple[float | None, float, float]] = {
    "epochs_per_min": (None, 1e-6, 1e6),
    "scaling": (1.0, 0.0, 2.0),
    "spread": (1.0, 0.01, 100.0),
    "cores": (2.0, 0.0, 1e6),
    "gbps": (5.0, 0.0, 99.0),
    "largest_tensor": (0.0, 0.0, 1.0),
}
"""the default (None: it must be given), the least and the greatest value"""
_TASKS: Mapping[str, tuple[int, ...]] = {"worker": (1, 2, 8, 5), "ps": (0, 1, 4, 5)}
_MOST_UNITS = 1_000_000
_MAX_NAME = 100


class OwnTable(NamedTuple):
    """The file's content, checked. L models."""

    names: tuple[str, ...]
    numbers: Mapping[str, Float64]
    """(L,) by the names above"""
    demand: Int32
    """(L, 2, K) of a worker and of a parameter server"""
    ratio: Float64
    """(L, L)"""


def read_own_table(path: Path) -> OwnTable:
    """Read a table of interference.

    Raises:
        StudyError: it cannot be read, is not square, or holds a number that is not finite and
            positive.
    """
    content = read_json(path, StudyError, _MOST_BYTES)
    models = content.get("models") if isinstance(content, dict) else None
    if not isinstance(models, list) or not 1 <= len(models) <= MOST_MODELS:
        raise StudyError(f"{path}: a list `models` of 1 to {MOST_MODELS} is needed")
    if unknown := set(content) - {"models", "ratio"}:
        raise StudyError(f"{path}: unknown key {min(unknown)!r:.40}; there are models, ratio")
    checked = [_Model(path, number, one) for number, one in enumerate(models)]
    names = tuple(one.name for one in checked)
    if len(set(names)) < len(names):
        raise StudyError(f"{path}: two models have one name")
    return OwnTable(
        names,
        {name: np.array([one.number_of(name) for one in checked]) for name in _NUMBERS},
        np.array([[one.task(kind) for kind in _TASKS] for one in checked], np.int32),
        _ratio(path, content.get("ratio"), len(names)),
    )


class _Model:
    """One object of the list `models`."""

    def __init__(self, path: Path, number: int, content: Any) -> None:
        self._where = f"{path}: model {number}"
        if not isinstance(content, dict):
            raise StudyError(f"{self._where} is {content!r:.40}: an object is needed")
        if unknown := set(content) - {"name", *_NUMBERS, *_TASKS}:
            known = ", ".join(("name", *_NUMBERS, *_TASKS))
            raise StudyError(f"{self._where}: unknown key {min(unknown)!r:.40}; there are {known}")
        self._content = content
        name = content.get("name")
        if not (isinstance(name, str) and name and is_clean(name, _MAX_NAME)):
            raise StudyError(
                f"{self._where}: name is {name!r:.40}: 1 to {_MAX_NAME} printable characters"
            )
        self.name = name

    def number_of(self, name: str) -> float:
        default, least, most = _NUMBERS[name]
        found = self._content.get(name, default)
        if not (is_number(found) and least <= found <= most):
            raise StudyError(
                f"{self._where}: {name} is {found!r:.40}: a number from {least:g} to {most:g}"
            )
        return float(found)

    def task(self, kind: str) -> list[int]:
        found: Any = self._content.get(kind, list(_TASKS[kind]))
        whole = isinstance(found, list) and all(type(one) is int for one in found)
        if not (whole and len(found) == K and all(0 <= one <= _MOST_UNITS for one in found)):
            raise StudyError(f"{self._where}: {kind} is {found!r:.40}: 4 whole numbers are needed")
        if kind == "worker" and found[0] < 1:
            raise StudyError(f"{self._where}: a worker has {found[0]} GPUs: at least 1 is needed")
        return list(found)


def _ratio(path: Path, rows: Any, count: int) -> Float64:
    square = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    if not square or [len(row) for row in rows] != [count] * count:
        raise StudyError(f"{path}: ratio must be {count} rows of {count} numbers, as models are")
    for i, row in enumerate(rows):
        for j, one in enumerate(row):
            if not (is_number(one) and 0.0 < one <= 10.0):
                raise StudyError(
                    f"{path}: ratio of row {i}, column {j} is {one!r:.40}: above 0, at most 10"
                )
    return np.array(rows, float)
