"""One episode of a lockstep simulator as a Gymnasium environment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium
import numpy as np
from gymnasium.error import InvalidAction, ResetNeeded
from numpy.typing import NDArray

from decima.rl.errors import StudyError
from decima.rl.study.lockstep import ONLY, Lockstep
from traces.files.names import suggestion

E = TypeVar("E", bound=Lockstep)
Seen = TypeVar("Seen")
C = TypeVar("C")


class StudyEnv(gymnasium.Env[Seen, np.int64], Generic[E, Seen]):
    """Base of the environments: who begins an episode, and what `step` answers.

    A subclass describes itself in `__init__`: `config`, `observation_space` and `action_space`. Its
    `_begin` makes an episode on `jobs`, or if that is None on input `number` of the seed; `_act`
    returns the reward and the info; `_summary` is for the info of the last step.
    """

    NUMBER_NAME: ClassVar[str]
    """what info calls the number of the input that is played"""

    config: Any
    _seed: int | None = None
    _number = 0
    _episodes: E | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode; see "Starting state". StudyError for an option other than `jobs`."""
        super().reset(seed=seed)
        options = {} if options is None else dict(options)
        jobs = options.pop("jobs", None)
        if options:
            raise StudyError(f"reset knows the option jobs, not {', '.join(options)}")
        if seed is not None:
            self._seed, self._number = seed, 0
        elif self._seed is None:
            self._seed = int(self.np_random.integers(2**63))
        else:
            self._number += 1
        episodes = self._begin(jobs, self._seed, self._number)
        self._episodes = episodes
        info = {"seed": self._seed, self.NUMBER_NAME: self._number}
        return self._observation(episodes), info | self._legal(episodes)

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Take one action; see the tables above.

        Raises ResetNeeded if no episode is under way, InvalidAction outside of the action space.
        """
        episodes = self._under_way()
        if not self.action_space.contains(action):
            raise InvalidAction(f"action {action} is not in {self.action_space}")
        reward, info = self._act(episodes, int(action))
        over, cut = bool(episodes.over[0]), bool(episodes.cut[0])
        info |= self._legal(episodes)
        if over:
            info |= self._summary(episodes)
        return self._observation(episodes), reward, over and not cut, cut, info

    def action_masks(self) -> NDArray[np.bool_]:
        """(A,) which actions are allowed: as `sb3_contrib.MaskablePPO` asks.

        Raises ResetNeeded if no episode is under way.
        """
        return np.asarray(self._under_way().masks(ONLY)[0])

    def _under_way(self) -> E:
        if self._episodes is None or self._episodes.over[0]:
            raise ResetNeeded("no episode is under way: call reset() first")
        return self._episodes

    def _legal(self, episodes: E) -> dict[str, Any]:
        return {"action_mask": episodes.masks(ONLY)[0].astype(np.int8)}

    @abstractmethod
    def _begin(self, jobs: Any, seed: int, number: int) -> E: ...

    @abstractmethod
    def _act(self, episodes: E, action: int) -> tuple[float, dict[str, Any]]: ...

    @abstractmethod
    def _observation(self, episodes: E) -> Seen: ...

    @abstractmethod
    def _summary(self, episodes: E) -> dict[str, Any]: ...


def check_choice(what: str, name: str, known: Iterable[str]) -> None:
    """Raise StudyError for a name that is not known."""
    if name not in (names := list(known)):
        near = suggestion(name, names)
        raise StudyError(f"unknown {what} {name!r}{near}; there are {', '.join(names)}")


def configuration(config: C | str, known: Mapping[str, C]) -> C:
    """Return the configuration, or the known one that it names; StudyError if it is unknown."""
    if not isinstance(config, str):
        return config
    check_choice("configuration", config, known)
    return known[config]


def register(name: str, entry_point: str) -> None:
    """Make ``gymnasium.make(name)`` known; a second call changes nothing."""
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=entry_point)
