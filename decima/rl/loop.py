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
from dataclasses import dataclass, replace
from enum import Enum

from torch import Tensor

from decima.rl.checkpoint import load_tensors, save_tensors, snapshot
from decima.rl.errors import CheckpointError, NotFiniteError, RunError
from decima.rl.learner import IterationReport, Learner, LoopSettings, LoopState, Observer
from decima.rl.run_folder import RunFolder
from decima.rl.stopping import Interrupted, Stop, stop_signals
from decima.rl.threads import one_thread

SAVING_SHARE = 0.02
"""share of the time that saving after each iteration may take"""
SCORE = "score"

Clock = Callable[[], float]


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
            reason = _run(session, observers, stop)
            session.save()
    except BaseException:  # the state so far is saved, whatever the error
        with contextlib.suppress(RunError):
            session.save()
        raise
    finally:
        for observer in observers:
            observer.stopped()
    return TrainingResult(reason, session.state)


def _run(session: _Session, observers: Sequence[Observer], stop: Stop) -> StopReason:
    """Iterate until there is a reason to stop."""
    while (reason := session.reason_to_stop()) is None and not stop.asked:
        try:
            report = session.advance(stop)
        except Interrupted:
            session.give_up()
            return StopReason.SIGNAL if stop.asked else StopReason.TIME_LIMIT
        for observer in observers:
            observer.iterated(report)
    return StopReason.SIGNAL if reason is None else reason


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
        self._tensors = snapshot(learner.state())
        """state of the learner before the next iteration"""
        self._start_s = clock() - self.state.elapsed_s
        self._saved_at_s = clock()
        self._saving_s = 0.0
        self._is_saved = folder.checkpoint_file.exists()

    def reason_to_stop(self) -> StopReason | None:
        """Return the reason to stop before the next iteration, or None."""
        settings = self._settings
        if self.state.next_iteration >= settings.iterations:
            return StopReason.DONE
        if settings.patience is not None and self.state.validations_since_best >= settings.patience:
            return StopReason.PATIENCE
        spent_s = self.state.elapsed_s - self._begun_s
        if settings.time_limit_s is not None and spent_s >= settings.time_limit_s:
            return StopReason.TIME_LIMIT
        return None

    def advance(self, stop: Stop) -> IterationReport:
        """Do one iteration and record it.

        Raises:
            Interrupted: it was to stop and took too long; call `give_up`.
        """
        iteration = self.state.next_iteration
        metrics: dict[str, float] = {}
        try:
            with stop.may_interrupt():
                metrics |= _floats(self._learner.iterate(iteration))
            _check_finite(metrics, self._learner.state())
            state = self._validated(iteration, metrics, stop)
            after = snapshot(self._learner.state())
        except NotFiniteError as error:
            raise self._failed(iteration, metrics, error) from error
        elapsed_s = self._clock() - self._start_s
        self._folder.append_metrics(iteration, {**metrics, "elapsed_s": elapsed_s})
        # Only now: an error before this leaves the run where the iteration began.
        self.state = replace(state, next_iteration=iteration + 1, elapsed_s=elapsed_s)
        self._tensors = after
        self._is_saved = False
        self._save_if_due()
        return IterationReport(iteration, metrics, self.state)

    def give_up(self) -> None:
        """Put the learner back to where the current iteration began."""
        self._learner.load(self._tensors)

    def save(self) -> None:
        """Write a checkpoint of where the run stands, unless the file holds that already."""
        if self._is_saved:
            return
        begun_s = self._clock()
        facts = self.state.to_json()
        save_tensors(self._folder.checkpoint_file, self._tensors, facts)
        self._is_saved = True
        self._saved_at_s = self._clock()
        self._saving_s = self._saved_at_s - begun_s

    def _save_if_due(self) -> None:
        since_s = self._clock() - self._saved_at_s
        is_cheap = self._saving_s <= SAVING_SHARE * since_s
        if is_cheap or since_s >= self._settings.checkpoint_every_s:
            self.save()

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

    def _validated(self, iteration: int, metrics: dict[str, float], stop: Stop) -> LoopState:
        """Validate if it is time to, and keep the model if it is the best; adds to `metrics`."""
        done = iteration + 1
        if done % self._settings.validate_every != 0 and done != self._settings.iterations:
            return self.state
        with stop.may_interrupt():
            found = _floats(self._learner.validate())
        metrics |= {f"validation/{name}": value for name, value in found.items()}
        _check_finite(metrics, {})
        score = found[SCORE]
        if self.state.best_score is not None and score >= self.state.best_score:
            return replace(self.state, validations_since_best=self.state.validations_since_best + 1)
        facts = {"iteration": iteration, "validation": found}
        save_tensors(self._folder.best_file, self._learner.model_state(), facts)
        return replace(
            self.state, best_score=score, best_iteration=iteration, validations_since_best=0
        )

    def _failed(
        self, iteration: int, metrics: Mapping[str, float], error: NotFiniteError
    ) -> NotFiniteError:
        """Keep the state before the iteration beside a report; `train` makes it the checkpoint."""
        self._folder.report_failure(
            {
                "iteration": iteration,
                "problem": str(error),
                "metrics": {name: str(value) for name, value in metrics.items()},
                "config": self._folder.config,
            }
        )
        kept = self._folder.failure_folder / "state.safetensors"
        save_tensors(kept, self._tensors, self.state.to_json())
        return NotFiniteError(
            f"iteration {iteration}: {error}; the state before it is in {kept},"
            " and resuming the run repeats that iteration exactly"
        )


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
