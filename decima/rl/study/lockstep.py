"""Episodes in lockstep, and who plays them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from decima.rl.errors import StudyError
from decima.rl.study.streams import Draws

Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]
R = TypeVar("R", bound=tuple[Any, ...])

ONLY = np.zeros(1, np.int32)
"""row of an episode that is played alone"""


def joined(parts: Sequence[R]) -> R:
    """Return the rows of several records of arrays as one; a column may be such a record itself."""
    columns = zip(*parts, strict=True)
    make: Any = type(parts[0])
    return make(*(joined(c) if isinstance(c[0], tuple) else np.concatenate(c) for c in columns))  # type: ignore[no-any-return]


class Lockstep(ABC):
    """E episodes, each on one of several inputs; what happens in one depends on no other.

    Args:
        jobs: S inputs, whose `number` (S,) counts the jobs of each.
        jobs_of: (E,) which input each episode plays; None plays each once.
    """

    state: Any
    """arrays that kernels change in place, E rows each; `finished` counts complete jobs"""

    def __init__(self, jobs: Any, jobs_of: Int32 | None) -> None:
        self.jobs = jobs
        chosen = np.arange(len(jobs.number)) if jobs_of is None else jobs_of
        self._jobs_of = np.ascontiguousarray(chosen, np.int32)
        self._all = np.arange(len(chosen), dtype=np.int32)

    def __len__(self) -> int:
        return len(self._all)

    @property
    @abstractmethod
    def is_time_up(self) -> Bool:
        """(E,) whether an episode has reached its longest duration."""

    @property
    def complete(self) -> Bool:
        """(E,) whether all jobs are complete."""
        return np.asarray(self.state.finished == self.jobs.number[self.state.jobs_of])

    @property
    def over(self) -> Bool:
        """(E,) whether all jobs are complete, or the episode was cut."""
        return self.complete | self.is_time_up

    @property
    def cut(self) -> Bool:
        """(E,) whether the time was up before all jobs were complete."""
        return ~self.complete & self.is_time_up

    def under_way(self) -> Int32:
        """(n,) numbers of the episodes that are not over."""
        return np.nonzero(~self.over)[0].astype(np.int32)

    def fork(self, rows: Int32) -> Self:
        """(n,) new episodes that go on from where the episodes `rows` are; one may come often.

        Those branches of one episode meet the same arrivals and the same noise.
        """
        branches = copy(self)
        taken = (np.take(column, rows, axis=0) for column in self.state)
        branches.state = type(self.state)._make(taken)
        branches._all = np.arange(len(rows), dtype=np.int32)
        return branches

    def _zeros(self, *shape: int, kind: Any = np.int32) -> Any:
        """(E, ...) zeros."""
        return np.zeros((len(self), *shape), kind)

    @abstractmethod
    def masks(self, rows: Int32) -> Bool:
        """(n, A) which actions of the episodes `rows` are allowed."""

    @abstractmethod
    def step(self, rows: Int32, action: Int32) -> Any:
        """Let the episodes `rows` act; the result has a mask of those that are `over`."""


E = TypeVar("E", bound=Lockstep)
E_contra = TypeVar("E_contra", bound=Lockstep, contravariant=True)


class Chooser(Protocol[E_contra]):
    """Interface of the schedulers that choose actions."""

    def choose(self, episodes: E_contra, rows: Int32, draws: Draws, /) -> Int32:
        """(n,) actions for the episodes `rows`; whatever is random comes from `draws`."""
        ...


Watcher = Callable[[Int32, Int32, Any], None]
"""called after each round: (n,) episodes, their actions, what these led to"""


def play(scheduler: Chooser[E], episodes: E, draws: Draws, watcher: Watcher | None = None) -> None:
    """Let the scheduler play all episodes to their ends, in lockstep."""
    rows = episodes.under_way()
    while len(rows) > 0:
        action = scheduler.choose(episodes, rows, draws)
        steps = episodes.step(rows, action)
        if watcher is not None:
            watcher(rows, action, steps)
        rows = rows[~steps.over]


def play_up_to(
    scheduler: Chooser[E], episodes: E, seed: int, clock: Int32, moment: int, unit: str
) -> None:
    """Let the scheduler play one episode until its `clock`, (1,), reaches a moment.

    Raises StudyError if the episode is over before.
    """
    draws = Draws(seed, 1)
    while len(rows := episodes.under_way()) > 0 and clock[0] < moment:
        episodes.step(rows, scheduler.choose(episodes, rows, draws))
    if len(rows) == 0:
        raise StudyError(f"{unit} {moment}: the episode is over at {clock[0]}")
