"""A network that chooses, as a scheduler among the others."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from decima.rl.study.streams import Draws
from deeprm import policy_kernels
from deeprm.episodes import Episodes
from deeprm.tables import Float32, Int32

Seen = NDArray[Any]
"""(n, ...) input of a network, a row for each decision; its own kind of numbers"""


class Frozen(Protocol):
    """A network as it was at one moment, quick to ask."""

    def observe(self, episodes: Episodes, rows: Int32) -> Seen:
        """Return its input (n, ...) for the episodes `rows`."""
        ...

    def scores(self, seen: Seen) -> Float32:
        """(n, A) scores; those of a row do not depend on the other rows."""
        ...


class Learned:
    """A network as a scheduler.

    Args:
        frozen: the network.
        greedy: take the action with the highest score instead of drawing one. The paper draws.
    """

    def __init__(self, frozen: Frozen, *, greedy: bool = False) -> None:
        self._frozen = frozen
        self._greedy = greedy
        self.seen: Seen
        """its input at the last choice"""

    def choose(self, episodes: Episodes, rows: Int32, draws: Draws) -> Int32:
        """(n,) actions."""
        self.seen = self._frozen.observe(episodes, rows)
        score = self._frozen.scores(self.seen)
        chance = np.full(len(rows), -1.0) if self._greedy else draws.next(rows)
        action = np.empty(len(rows), np.int32)
        policy_kernels.draw_action(score, chance, action)
        return action
