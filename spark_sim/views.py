"""Observations that cannot be written to, for policies that others wrote, and the way back."""

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
    """`seen` itself, or a copy if it is read-only: kernels are compiled for arrays that are not,
    and would be compiled anew for those, which takes a minute.
    """
    return seen if seen.jobs.flags.writeable else copied(seen)


def copied(seen: Observation) -> Observation:
    """A copy that stays as it is when the run goes on."""
    return seen._replace(
        active=seen.active.copy(),
        classes=seen.classes.copy(),
        jobs=seen.jobs.copy(),
        stages=seen.stages.copy(),
    )
