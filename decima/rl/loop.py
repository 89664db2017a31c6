"""The training loop: iterate, validate, keep the best, save, stop for a reason.

Saving. A run that is killed goes on from its last checkpoint and arrives at the same weights: what
is lost is time. Checkpoints are small, so one is written after each iteration as long as writing
takes at most `SAVING_SHARE` of the time; where iterations are too quick for that, every
`checkpoint_every_s` seconds at least. An iteration that takes 50 times as long as saving is
therefore always saved (half a second, for a state of 150 KB that takes 10 ms), and a kill loses the
current iteration alone. An error saves what was reached before it.

Order. The line of metrics and the best model are written before the checkpoint: a kill in between
leaves them ahead of it, and the resumed run writes the same again.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from typing import Any, Protocol

from torch import Tensor

from decima.rl.checkpoint import load_tensors, save_tensors, snapshot
from decima.rl.errors import CheckpointError, NotFiniteError, RunError
from decima.rl.optimiser import one_thread
from decima.rl.run_folder import RunFolder
from decima.rl.stopping import Interrupted, Stop, stop_signals
from traces.files.numbers import is_count, is_number

SAVING_SHARE = 0.02
"""share of the time that saving after each iteration may take"""
SCORE = "score"

Clock = Callable[[], float]


class Learner(Protocol):
    """Protocol of an iterative learner. Its random draws depend on (seed, iteration) alone.

    Then its state after n iterations is the same however often the run was interrupted.
    """

    def iterate(self, iteration: int) -> Mapping[str, float]:
        """One rollout and update, numbered from 0; figures to record by name.

        Raises NotFiniteError if a number is not finite; the loop checks figures and state, too.
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

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> LoopState:
        """Restore from the plain values; CheckpointError if one is missing or no such number."""
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


class Observer:
    """Base of the observers of a run, which do nothing; an error raised here ends the run."""

    def started(self, state: LoopState, settings: LoopSettings) -> None:
        """A session begins, at `state.next_iteration`."""

    def iterated(self, report: IterationReport) -> None:
        """An iteration is done, and saved if it was time to."""

    def stopped(self) -> None:
        """The session is over, by success or by an error."""


class StopReason(Enum):
    """Reason why a session ended."""

    DONE = "all iterations done"
    PATIENCE = "no better validation score"
    TIME_LIMIT = "time limit reached"
    SIGNAL = "asked to stop"


@dataclass(frozen=True)
class TrainingResult:
    """Result of a session."""

    reason: StopReason
    state: LoopState


def train(
    learner: Learner,
    folder: RunFolder,
    settings: LoopSettings,
    observers: Sequence[Observer] = (),
    clock: Clock = time.monotonic,
) -> TrainingResult:
    """Train until the settings or a signal stop it; torch computes with one thread.

    Goes on from the checkpoint in the folder if there is one. SIGINT (Ctrl-C), SIGTERM and the time
    limit stop it after the current iteration, with a checkpoint. An iteration that has not ended
    `stopping.GRACE_S` seconds later is given up: the run stands where that iteration began, and a
    resumed run repeats it. A second SIGINT stops at once.

    Args:
        learner: as newly made from the configuration of the run.
        folder: the run folder, open.
        settings: how long to train.
        observers: called after each iteration, in this order.
        clock: seconds that never go backwards.

    Raises:
        NotFiniteError: a figure or the state is not finite; the message has the command to replay
            it.
        RunError: a file cannot be written or the checkpoint cannot be read.
    """
    session = _Session(learner, folder, settings, clock)
    try:
        for observer in observers:
            observer.started(session.state, settings)
        with one_thread(), stop_signals(settings.time_limit_s) as stop:
            while (reason := session.reason_to_stop(stop)) is None:
                try:
                    report = session.advance(stop)
                except Interrupted:
                    learner.load(session.tensors)
                    reason = StopReason.SIGNAL if stop.asked else StopReason.TIME_LIMIT
                    break
                for observer in observers:
                    observer.iterated(report)
            session.save()
    except BaseException:  # the state so far is saved, whatever the error
        with contextlib.suppress(RunError):
            session.save()
        raise
    finally:
        for observer in observers:
            observer.stopped()
    return TrainingResult(reason, session.state)


class _Session:
    """One stretch of a run between start or resume and stop."""

    def __init__(
        self, learner: Learner, folder: RunFolder, settings: LoopSettings, clock: Clock
    ) -> None:
        self._learner = learner
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self.state = self._resumed()
        self._begun_s = self.state.elapsed_s
        """seconds of training before this session"""
        self.tensors = snapshot(learner.state())
        """state of the learner before the next iteration"""
        self._start_s = clock() - self.state.elapsed_s
        self._saved_at_s = clock()
        self._saving_s = 0.0
        self._is_saved = folder.checkpoint_file.exists()

    def _resumed(self) -> LoopState:
        if not self._folder.checkpoint_file.exists():
            self._folder.keep_metrics_before(0)
            return LoopState()
        tensors, facts = load_tensors(self._folder.checkpoint_file)
        state = LoopState.from_json(facts)
        missing = self._learner.state().keys() - tensors.keys()
        if missing:
            raise CheckpointError(
                f"{self._folder.checkpoint_file}: written by another version of this program: it "
                f"holds no {', '.join(sorted(missing))}"
            )
        self._learner.load(tensors)
        self._folder.keep_metrics_before(state.next_iteration)
        return state

    def reason_to_stop(self, stop: Stop) -> StopReason | None:
        """Return the reason to stop before the next iteration, or None."""
        settings, state = self._settings, self.state
        if state.next_iteration >= settings.iterations:
            return StopReason.DONE
        if settings.patience is not None and state.validations_since_best >= settings.patience:
            return StopReason.PATIENCE
        spent_s = state.elapsed_s - self._begun_s
        if settings.time_limit_s is not None and spent_s >= settings.time_limit_s:
            return StopReason.TIME_LIMIT
        return StopReason.SIGNAL if stop.asked else None

    def advance(self, stop: Stop) -> IterationReport:
        """Iterate, validate if it is time to, record, and save.

        Raises Interrupted if it was to stop and took too long; the learner needs `tensors` back.
        """
        learner, folder, settings, state = self._learner, self._folder, self._settings, self.state
        iteration = state.next_iteration
        metrics: dict[str, float] = {}
        try:
            with stop.may_interrupt():
                metrics |= _floats(learner.iterate(iteration))
            _check_finite(metrics, learner.state())
            done = iteration + 1
            if done % settings.validate_every == 0 or done == settings.iterations:
                with stop.may_interrupt():
                    validation = _floats(learner.validate())
                metrics |= {f"validation/{name}": value for name, value in validation.items()}
                _check_finite(metrics, {})
                score = validation[SCORE]
                if state.best_score is None or score < state.best_score:
                    facts = {"iteration": iteration, "validation": validation}
                    save_tensors(folder.best_file, learner.model_state(), facts)
                    state = replace(
                        state, best_score=score, best_iteration=iteration, validations_since_best=0
                    )
                else:
                    worse = state.validations_since_best + 1
                    state = replace(state, validations_since_best=worse)
            after = snapshot(learner.state())
        except NotFiniteError as error:
            # Keep the state before the iteration beside a report; `train` makes it the checkpoint.
            folder.report_failure(
                {
                    "iteration": iteration,
                    "problem": str(error),
                    "metrics": {name: str(value) for name, value in metrics.items()},
                    "config": folder.config,
                }
            )
            saved = folder.failure_folder / "state.safetensors"
            save_tensors(saved, self.tensors, asdict(self.state))
            raise NotFiniteError(
                f"iteration {iteration}: {error}; the state before it is in {saved},"
                " and resuming the run repeats that iteration exactly"
            ) from error
        elapsed_s = self._clock() - self._start_s
        folder.append_metrics(iteration, {**metrics, "elapsed_s": elapsed_s})
        # Only now: an error before this leaves the run where the iteration began.
        self.state = replace(state, next_iteration=iteration + 1, elapsed_s=elapsed_s)
        self.tensors = after
        self._is_saved = False
        since_s = self._clock() - self._saved_at_s
        is_cheap = self._saving_s <= SAVING_SHARE * since_s
        if is_cheap or since_s >= settings.checkpoint_every_s:
            self.save()
        return IterationReport(iteration, metrics, self.state)

    def save(self) -> None:
        """Write a checkpoint of where the run stands, unless the file holds that already."""
        if self._is_saved:
            return
        begun_s = self._clock()
        save_tensors(self._folder.checkpoint_file, self.tensors, asdict(self.state))
        self._is_saved = True
        self._saved_at_s = self._clock()
        self._saving_s = self._saved_at_s - begun_s


def _floats(metrics: Mapping[str, float]) -> dict[str, float]:
    """Numpy's numbers made plain, as JSON knows no others."""
    return {name: float(value) for name, value in metrics.items()}


def _check_finite(metrics: Mapping[str, float], tensors: Mapping[str, Tensor]) -> None:
    """Raise NotFiniteError that names the first figure or tensor with a number not finite."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise NotFiniteError(f"{name} is {value}: it must be finite")
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            count = int((~tensor.isfinite()).sum())
            raise NotFiniteError(
                f"{count} of {tensor.numel()} numbers of {name} are not finite after the update"
            )
