"""Read-only observations, for policies of other authors, and writable copies of them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_sim.observation import Observation
from spark_sim.tables import CLASS, JOB, STAGE

_NUMBERS = (float, int, int, int, int, int, float, float, float, float, float, int, int)
_TABLES = (np.dtype(np.int32), CLASS, JOB, STAGE)
# The types of an observation's fields, in their order.

Scalar = TypeVar("Scalar", bound=np.generic)


def read_only(seen: Observation) -> Observation:
    """Return the view with read-only arrays."""
    return seen._replace(
        active=_locked(seen.active),
        classes=_locked(seen.classes),
        jobs=_locked(seen.jobs),
        stages=_locked(seen.stages),
    )


def _locked(array: NDArray[Scalar]) -> NDArray[Scalar]:
    found = array.view()
    found.flags.writeable = False
    return found


def for_kernels(seen: Observation) -> Observation:
    """Return the view with the types that kernels are compiled for: plain numbers, and tables that
    are contiguous and may be written to. Others are copied.
    """
    numbers, tables = seen[: len(_NUMBERS)], seen[len(_NUMBERS) :]
    if tuple(map(type, numbers)) == _NUMBERS and all(map(_is_plain, tables, _TABLES)):
        return seen
    return Observation._make(
        [
            *(kind(value) for kind, value in zip(_NUMBERS, numbers, strict=True)),
            *(
                np.require(table, kind, ["C", "W"])
                for table, kind in zip(tables, _TABLES, strict=True)
            ),
        ]
    )


def _is_plain(table: Any, kind: Any) -> bool:
    return bool(table.flags.carray and table.dtype == kind)


def copied(seen: Observation) -> Observation:
    """Return a copy that later steps do not change."""
    return seen._replace(
        active=seen.active.copy(),
        classes=seen.classes.copy(),
        jobs=seen.jobs.copy(),
        stages=seen.stages.copy(),
    )
