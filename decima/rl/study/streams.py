"""Named streams of one seed, and the random numbers of episodes that are played in lockstep."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from decima.rl.errors import StudyError
from decima.rl.returns import Floats

T = TypeVar("T")

# The constants of splitmix64 (Steele, Lea, Flood 2014).
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class Purpose(IntEnum):
    """Purpose of random numbers; no two purposes share any."""

    TRAINING = 0
    VALIDATION = 1
    """jobs that choose the best weights of a training"""
    TUNING = 2
    """jobs on which baselines are tuned, or speeds measured that they are fitted to"""
    TEST = 3
    """jobs that every figure is measured on, and nothing else"""
    ACTIONS = 4
    """choices of a randomised policy"""
    EPISODES = 5
    """jobs of the Gymnasium environment"""
    WEIGHTS = 6
    """of a network before it has learned"""
    NOISE = 7
    """of speeds"""
    BATCHES = 8
    """what a network learns from next"""


def seed_of(seed: int, purpose: Purpose, *which: int) -> np.random.SeedSequence:
    """Return the stream of a purpose; `which` numbers the streams of one purpose."""
    if seed < 0:
        raise StudyError(f"seed is {seed}: it must not be negative")
    return np.random.SeedSequence(seed, spawn_key=(purpose, *which))


def torch_seed(seed: int) -> int:
    """Return the seed from which torch draws the first weights of a network."""
    entropy = seed_of(seed, Purpose.WEIGHTS).generate_state(1, np.uint64)[0]
    return int(entropy >> np.uint64(1))


def each_drawn(
    draw: Callable[[np.random.Generator], T],
    count: int,
    seed: int,
    purpose: Purpose,
    first: int,
    what: str,
) -> list[T]:
    """Inputs `first` to `first + count - 1` of a purpose; each has a stream of its own.

    Raises StudyError if fewer than 1 of `what` are asked for.
    """
    if count < 1:
        raise StudyError(f"{count} {what}: at least 1 is needed")
    streams = (seed_of(seed, purpose, first + number) for number in range(count))
    return [draw(np.random.default_rng(stream)) for stream in streams]


class Draws:
    """Uniform numbers for choices in `count` episodes: the k-th of an episode depends on no other.

    `which` distinguishes draws of one seed, such as the number of an iteration.
    """

    def __init__(self, seed: int, count: int, *which: int) -> None:
        keys = seed_of(seed, Purpose.ACTIONS, *which).generate_state(count, np.uint64)
        self._key: NDArray[np.uint64] = keys.astype(np.uint64)
        self._drawn = np.zeros(count, np.uint64)

    def next(self, rows: NDArray[np.int32]) -> Floats:
        """(n,) numbers in [0, 1) for the episodes `rows`."""
        self._drawn[rows] += np.uint64(1)
        return np.asarray(uniform(self._key[rows], self._drawn[rows]))


def uniform(key: Any, counter: Any) -> Any:
    """Number in [0, 1) that depends on a key and a counter, from 1, alone.

    Both are 64-bit words, or (n,) arrays of them; `harmony.speed_kernels` compiles it.
    """
    bits = key + counter * _GAMMA
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    bits = bits ^ (bits >> np.uint64(31))
    return (bits >> np.uint64(11)) * 2.0**-53
