"""Interfaces between the training loop, its learner and its observers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

from torch import Tensor

from decima.rl.errors import CheckpointError
from traces.files.numbers import is_count, is_number


class Learner(Protocol):
    """Protocol of an iterative learner. Its random draws depend on (seed, iteration) alone.

    Then its state after n iterations is the same however often the run was interrupted.
    """

    def iterate(self, iteration: int) -> Mapping[str, float]:
        """One rollout and update, numbered from 0; figures to record by name.

        Raises:
            NotFiniteError: a number is not finite. The loop finds those in figures and state.
        """
        ...

    def validate(self) -> Mapping[str, float]:
        """Return figures of the model on fixed data; `score` decides, lower is better.

        A checkpoint holds the state after it.
        """
        ...

    def state(self) -> dict[str, Tensor]:
        """Return all state that iterations change: parameters, optimiser, averages. All values are
        finite.
        """
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave."""
        ...

    def model_state(self) -> dict[str, Tensor]:
        """Return the state of the best model: enough to use it, not to continue training."""
        ...


@dataclass(frozen=True)
class LoopSettings:
    """Limits and intervals of a training run."""

    iterations: int
    """train until this many are done"""
    validate_every: int
    """iterations from one validation to the next; there is one after the last iteration too"""
    checkpoint_every_s: float = 120.0
    """save at least this often, in seconds; more often where it costs little, see `loop.train`"""
    patience: int | None = None
    """stop after this many validations without a new best score; None never does"""
    time_limit_s: float | None = None
    """stop after this many seconds of training in one session; None never does. An iteration that
    takes longer than that and `stopping.GRACE_S` is given up"""

    def __post_init__(self) -> None:
        for name in ("iterations", "validate_every", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: it must be at least 1")
        if not self.checkpoint_every_s >= 0.0:
            raise ValueError(f"checkpoint_every_s is {self.checkpoint_every_s}: at least 0")
        if self.time_limit_s is not None and not self.time_limit_s > 0.0:
            raise ValueError(f"time_limit_s is {self.time_limit_s}: it must be above 0")


@dataclass(frozen=True)
class LoopState:
    """Progress of a run; saved with each checkpoint."""

    next_iteration: int = 0
    """number of iterations done"""
    best_score: float | None = None
    """lowest validation score so far; None before the first validation"""
    best_iteration: int | None = None
    """the iteration after which it was measured"""
    validations_since_best: int = 0
    elapsed_s: float = 0.0
    """wall time of training, all sessions together"""

    def to_json(self) -> dict[str, object]:
        """Return the values as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> LoopState:
        """Restore from the output of `to_json`.

        Raises:
            CheckpointError: a fact is missing or no such number.
        """
        values: dict[str, Any] = {field.name: facts.get(field.name) for field in fields(cls)}
        optional = ("best_score", "best_iteration")
        for name, value in values.items():
            if value is None and name in optional:
                continue
            is_fit, needed = is_count(value), "a whole number from 0"
            if name in ("best_score", "elapsed_s"):
                is_fit, needed = is_number(value), "a finite number"
            if not is_fit:
                raise CheckpointError(f"{name} of the training is {value!r:.40}: {needed}")
        return cls(**values)


@dataclass(frozen=True)
class IterationReport:
    """Results of an iteration, for observers."""

    iteration: int
    """its number, from 0"""
    metrics: Mapping[str, float]
    """figures of the iteration, and as `validation/NAME` those of a validation after it"""
    state: LoopState
    """where the run stands now"""


class Observer(Protocol):
    """Protocol of an observer of a run; an error raised here ends the run."""

    def started(self, state: LoopState, settings: LoopSettings) -> None:
        """A session begins, at `state.next_iteration`."""
        ...

    def iterated(self, report: IterationReport) -> None:
        """An iteration is done, and saved if it was time to."""
        ...

    def stopped(self) -> None:
        """The session is over, by success or by an error."""
        ...
