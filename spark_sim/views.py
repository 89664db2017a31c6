"""Read-only observations, for policies of other authors, and writable copies of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_sim.observation import Observation
from spark_sim.tables import CLASS, JOB, STAGE

_NUMBERS = (float, int, int, int, int, int, float, float, float, float, float, int, int)
_TABLES = (np.dtype(np.int32), CLASS, JOB, STAGE)
# The types of an observation's fields, in their order.


def read_only(observation: Observation) -> Observation:
    """Return the observation with read-only arrays."""
    tables = [table.view() for table in _tables(observation)]
    for table in tables:
        table.flags.writeable = False
    return Observation._make([*observation[: len(_NUMBERS)], *tables])


def copied(observation: Observation) -> Observation:
    """Return a copy that later steps do not change."""
    tables = [table.copy() for table in _tables(observation)]
    return Observation._make([*observation[: len(_NUMBERS)], *tables])


def for_kernels(observation: Observation) -> Observation:
    """Return the observation with the types that kernels are compiled for.

    These are plain numbers, and tables that are contiguous and writable. Others are copied.
    """
    numbers, tables = observation[: len(_NUMBERS)], _tables(observation)
    if tuple(map(type, numbers)) == _NUMBERS and all(
        table.flags.carray and table.dtype == kind
        for table, kind in zip(tables, _TABLES, strict=True)
    ):
        return observation
    return Observation._make(
        [
            *(kind(value) for kind, value in zip(_NUMBERS, numbers, strict=True)),
            *(
                np.require(table, kind, ["C", "W"])
                for table, kind in zip(tables, _TABLES, strict=True)
            ),
        ]
    )


def _tables(observation: Observation) -> list[NDArray[Any]]:
    return [observation.active, observation.classes, observation.jobs, observation.stages]
