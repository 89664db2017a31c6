"""Numba's types of what kernels pass on through `spark_sim.compiled`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from spark_sim.cluster import Cluster
from spark_sim.observation import observe
from spark_sim.setup import build_state
from spark_sim.tables import State
from traces import Job, Stage, Trace, to_arrays

# numba's stubs do not know its type.
_typeof: Any = numba.typeof


@cache
def state_type() -> Any:
    """Return the type of every `State`."""
    return _typeof(_smallest())


@cache
def observation_type() -> Any:
    """Return the type of every `Observation`."""
    return _typeof(observe(_smallest()))


def _smallest() -> State:
    """Return a run of one job of one task."""
    arrays = to_arrays(Trace("smallest", (Job("job", (Stage.fixed("stage", 1, 1.0, []),)),)))
    arrival_ms, job = np.zeros(1), np.zeros(1, np.int32)
    return build_state(arrays, Cluster(), arrival_ms, job, 0, timeline=False)
