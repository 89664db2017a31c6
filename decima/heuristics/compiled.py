"""The types that compiled heuristics share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
"""(P,) the parameters of a heuristic, in the order its module names them"""

PER_ROUND = 8
"""numbers that a heuristic may store of a round"""
PER_JOB = 160
"""numbers that it may store of each job"""


class Scratch(NamedTuple):
    """Work space of a heuristic in one run, with room for J jobs; with J 0 it stores nothing."""

    draws: NDArray[np.uint64]  # (2,) key and counter of a randomised heuristic
    stored: NDArray[np.int64]  # (PER_ROUND,) of the open round (`rounds.is_new`)
    counts: NDArray[np.int64]  # (4, J) by place among the jobs in the system
    numbers: NDArray[np.float64]  # (J + 1, PER_JOB) likewise; the last row is of all jobs


def scratch_for(key: int, jobs: int = 0) -> Scratch:
    """Return the work space for runs of up to `jobs` jobs.

    Args:
        key: 64 random bits, for a heuristic that draws.
        jobs: 0 where decisions of several runs alternate.
    """
    return Scratch(
        np.array([key, 0], np.uint64),
        np.full(PER_ROUND, -1, np.int64),
        np.zeros((4, jobs), np.int64),
        np.zeros((jobs + 1, PER_JOB)),
    )
