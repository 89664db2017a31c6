"""Read-only observations, for policies of other authors, and writable copies of them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_sim.observation import Observation

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
    """Return `seen`, or a copy if it is read-only: kernels are compiled for writable arrays, and
    compiling them for others takes a minute.
    """
    return seen if seen.jobs.flags.writeable else copied(seen)


def copied(seen: Observation) -> Observation:
    """Return a copy that later steps do not change."""
    return seen._replace(
        active=seen.active.copy(),
        classes=seen.classes.copy(),
        jobs=seen.jobs.copy(),
        stages=seen.stages.copy(),
    )
