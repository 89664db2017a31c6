"""The training loop: it learns, and it stops for a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from torch import Tensor

from decima.rl import loop
from decima.rl.checkpoint import load_tensors
from decima.rl.errors import RunError
from decima.rl.loop import IterationReport, LoopSettings, LoopState, Observer, StopReason, train
from decima.rl.run_folder import RunFolder
from tests.chain_learner import (
    ChainLearner,
    run,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_policy_learns(tmp_path: Path) -> None:
    """From picking at random it comes to pick the quickest machine at both stages."""
    learner, result = run(tmp_path / "run", LoopSettings(iterations=120, validate_every=20))

    assert result.reason is StopReason.DONE
    assert learner.validate()["score"] < 1.1
    assert result.state.best_score == learner.validate()["score"]
    assert learner.policy.weight.argmax(dim=0).tolist() == [1, 1]


def test_there_is_a_validation_after_the_last_iteration(tmp_path: Path) -> None:
    """Even if it is not a multiple: the last model may be the best."""
    run(tmp_path / "run", LoopSettings(iterations=2, validate_every=100))
    assert load_tensors(tmp_path / "run" / "best.safetensors")[1]["iteration"] == 1


def test_without_progress_the_run_stops_early(tmp_path: Path) -> None:
    """After `patience` validations in a row that were no better; it stays stopped."""

    class Worse(ChainLearner):
        scores: Iterator[float] = iter([5.0, 4.0, 4.0, 3.9, 3.9, 8.0, 4.0])

        def validate(self) -> Mapping[str, float]:
            return {"score": next(self.scores)}

    settings = LoopSettings(iterations=50, validate_every=2, patience=3)
    _, result = run(tmp_path / "run", settings, Worse())

    assert result.reason is StopReason.PATIENCE
    assert (result.state.best_score, result.state.best_iteration) == (3.9, 7)
    assert result.state.next_iteration == 14
    _, again = run(tmp_path / "run", settings)
    assert (again.reason, again.state) == (StopReason.PATIENCE, result.state)


class FakeClock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


def test_the_time_limit_counts_the_session(tmp_path: Path) -> None:
    """Two iterations of 10 s before; now within 15 s a second one begins, and no third does."""
    path, clock = tmp_path / "run", FakeClock()
    learner = ChainLearner(lambda _: clock.wait(10.0))
    with RunFolder.create(path, {}) as folder:
        train(learner, folder, LoopSettings(iterations=2, validate_every=9), clock=clock)
    clock.wait(1000.0)
    with RunFolder.open(path) as folder:
        settings = LoopSettings(iterations=9, validate_every=9, time_limit_s=15.0)
        result = train(learner, folder, settings, clock=clock)

    assert result.reason is StopReason.TIME_LIMIT
    assert result.state.next_iteration == 4
    assert result.state.elapsed_s == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("iteration_s", "saving_s", "expected"),
    [
        (1.0, 0.01, list(range(1, 31))),  # 1 % of the time: always
        (1.0, 0.09, [1, 6, 11, 16, 21, 26, 30]),  # 9 %: when 4.5 s have passed
        (0.1, 1.0, [1, 30]),  # much more: when 20 s have passed, or at the end
    ],
)
def test_saving_takes_its_share_of_the_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    iteration_s: float,
    saving_s: float,
    expected: list[int],
) -> None:
    """At most 2 % while the longest pause allows it, and always at the end."""
    clock, saved = FakeClock(), list[object]()

    def save(path: Path, _: Mapping[str, Tensor], facts: Mapping[str, object]) -> None:
        if path.name == "checkpoint.safetensors":
            saved.append(facts["next_iteration"])
            clock.wait(saving_s)

    monkeypatch.setattr(loop, "save_tensors", save)
    settings = LoopSettings(iterations=30, validate_every=100, checkpoint_every_s=20.0)
    with RunFolder.create(tmp_path / "run", {}) as folder:
        train(ChainLearner(lambda _: clock.wait(iteration_s)), folder, settings, clock=clock)

    assert saved == expected


class Recorder(Observer):
    """Writes down what it is told."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.told: list[object] = []
        self._fails_at = fails_at

    def started(self, state: LoopState, settings: LoopSettings) -> None:
        self.told.append(("started", state.next_iteration, settings.iterations))

    def iterated(self, report: IterationReport) -> None:
        self.told.append(report.iteration)
        if report.iteration == self._fails_at:
            raise RunError("observer cannot write")

    def stopped(self) -> None:
        self.told.append("stopped")


def test_observers_are_told_in_order(tmp_path: Path) -> None:
    """And are always told the end, so that a terminal is given back."""
    watch, broken = Recorder(), Recorder(fails_at=1)
    settings = LoopSettings(iterations=3, validate_every=9)
    with RunFolder.create(tmp_path / "run", {}) as folder:
        with pytest.raises(RunError, match="observer cannot write"):
            train(ChainLearner(), folder, settings, [watch, broken])
        train(ChainLearner(), folder, settings, [watch])

    assert broken.told == [("started", 0, 3), 0, 1, "stopped"]
    assert watch.told == [("started", 0, 3), 0, 1, "stopped", ("started", 2, 3), 2, "stopped"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iterations": 0}, "iterations is 0"),
        ({"validate_every": 0}, "validate_every is 0"),
        ({"patience": 0}, "patience is 0"),
        ({"checkpoint_every_s": -1.0}, "checkpoint_every_s is -1"),
        ({"time_limit_s": 0.0}, "time_limit_s is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, int], message: str) -> None:
    """The message names the setting, its value and the rule."""
    with pytest.raises(ValueError, match=message):
        LoopSettings(**{"iterations": 1, "validate_every": 1, **changes})
