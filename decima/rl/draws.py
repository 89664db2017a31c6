"""Random numbers for choices that many episodes make in lockstep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decima.rl.returns import Floats

# The constants of splitmix64 (Steele, Lea, Flood 2014).
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHARE = 2.0**-53


class Draws:
    """Uniform numbers: the k-th of an episode does not depend on episodes played beside it.

    Args:
        stream: what the keys of the episodes are drawn from.
        count: E, how many episodes there are.
    """

    def __init__(self, stream: np.random.SeedSequence, count: int) -> None:
        self._key: NDArray[np.uint64] = stream.generate_state(count, np.uint64).astype(np.uint64)
        self._drawn = np.zeros(count, np.uint64)

    def next(self, rows: NDArray[np.int32]) -> Floats:
        """(n,) numbers in [0, 1) for the episodes `rows`."""
        self._drawn[rows] += np.uint64(1)
        return uniform(self._key[rows], self._drawn[rows])


def uniform(key: NDArray[np.uint64], counter: NDArray[np.uint64]) -> Floats:
    """(n,) numbers in [0, 1) that depend on (n,) keys and (n,) counters, from 1, alone."""
    bits = key + counter * _GAMMA
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    bits = bits ^ (bits >> np.uint64(31))
    return np.asarray((bits >> np.uint64(11)).astype(np.float64) * _SHARE)
