"""The training loop: it learns, stops for a reason, and goes on to the same result."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch import Tensor

from decima.rl import loop
from decima.rl.checkpoint import load_tensors, save_tensors
from decima.rl.errors import CheckpointError, NotFiniteError, RunError
from decima.rl.loop import LoopSettings, LoopState, StopReason, train
from decima.rl.run_folder import RunFolder
from tests.chain_learner import (
    SEED,
    SHORT,
    ChainLearner,
    assert_same_run,
    checkpoint_iteration,
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


# --- stopped, killed or damaged -------------------------------------------------------------------


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of `SHORT` that nothing disturbed."""
    path = tmp_path_factory.mktemp("uninterrupted") / "run"
    run(path, SHORT)
    return path


def test_the_folder_tells_the_whole_run(uninterrupted: Path) -> None:
    """A line for each iteration, validations among them, the best model and where it came from."""
    with RunFolder.open(uninterrupted) as folder:
        lines = folder.metrics()
    assert [line["iteration"] for line in lines] == list(range(12))
    assert [i for i, line in enumerate(lines) if "validation/score" in line] == [2, 5, 8, 11]
    assert all(line["elapsed_s"] > 0.0 for line in lines)

    scores = {i: line["validation/score"] for i, line in enumerate(lines) if i % 3 == 2}
    _, facts = load_tensors(uninterrupted / "best.safetensors")
    assert facts["iteration"] == min(scores, key=lambda i: scores[i])
    assert facts["validation"]["score"] == min(scores.values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_the_iteration(
    tmp_path: Path, uninterrupted: Path, number: int
) -> None:
    """It is finished and saved; the resumed run is the same as one that was not stopped."""
    path = tmp_path / "run"
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    def interrupt(iteration: int) -> None:
        if iteration == 4:
            os.kill(os.getpid(), number)

    _, result = run(path, SHORT, ChainLearner(interrupt))
    assert result.reason is StopReason.SIGNAL
    assert result.state.next_iteration == 5
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers

    run(path, SHORT)
    assert_same_run(path, uninterrupted)


def test_a_second_interrupt_does_not_wait(tmp_path: Path, uninterrupted: Path) -> None:
    """The iteration is given up; the checkpoint before it stands."""

    def interrupt_twice(iteration: int) -> None:
        if iteration == 4:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", SHORT, ChainLearner(interrupt_twice))
    assert checkpoint_iteration(tmp_path / "run") == 4

    run(tmp_path / "run", SHORT)
    assert_same_run(tmp_path / "run", uninterrupted)


class Killed(BaseException):
    """Stands for the end of the process."""


WRITERS = ("append_metrics", "save_best", "save_checkpoint")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_kill_around_any_write_loses_one_iteration_at_most(
    tmp_path: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch, writer: str, when: str
) -> None:
    """Killed on either side of the second of each, the run comes out right."""
    writes = dict.fromkeys(WRITERS, 0)
    killed = threading.Event()

    def watched(name: str, write: Callable[[], None]) -> None:
        writes[name] += 1
        is_hit = name == writer and writes[name] == 2
        if killed.is_set() or (is_hit and when == "before"):
            killed.set()
            raise Killed
        write()
        if is_hit:
            killed.set()
            raise Killed

    def save(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, object]) -> None:
        name = "save_best" if path.name.startswith("best") else "save_checkpoint"
        watched(name, lambda: save_tensors(path, tensors, facts))

    append = RunFolder.append_metrics

    def append_metrics(folder: RunFolder, iteration: int, metrics: Mapping[str, float]) -> None:
        watched("append_metrics", lambda: append(folder, iteration, metrics))

    with monkeypatch.context() as patches:
        patches.setattr(loop, "save_tensors", save)
        patches.setattr(RunFolder, "append_metrics", append_metrics)
        with pytest.raises(Killed):
            run(tmp_path / "run", SHORT)
    begun = 6 if writer == "save_best" else 2
    assert checkpoint_iteration(tmp_path / "run") >= begun - 1

    run(tmp_path / "run", SHORT)
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_damaged_checkpoint_is_not_trained_over(tmp_path: Path) -> None:
    """One line, and the file is as it was."""
    path = tmp_path / "run"
    run(path, SHORT)
    file = path / "checkpoint.safetensors"
    cut = file.read_bytes()[:-1]
    file.write_bytes(cut)
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors: not a safetensors file"):
        run(path, SHORT)
    assert file.read_bytes() == cut

    count, number = "a whole number from 0", "a finite number"
    cases: list[tuple[str, object, str]] = [
        *(("next_iteration", odd, count) for odd in ("3", -3.5, 3.0, -1, True, 10**400)),
        *(("elapsed_s", odd, number) for odd in (None, "3", 10**400)),
    ]
    for name, odd, needed in cases:
        save_tensors(file, {}, asdict(LoopState()) | {name: odd})
        with pytest.raises(CheckpointError, match=rf"{name} of .* is {odd!r:.40}: {needed}"):
            run(path, SHORT)


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    """One line that names what the learner needs and the file does not hold."""
    path = tmp_path / "run"
    run(path, SHORT)
    file = path / "checkpoint.safetensors"
    tensors, facts = load_tensors(file)
    del tensors["average"]
    save_tensors(file, tensors, facts)
    older = file.read_bytes()
    with pytest.raises(CheckpointError, match=r"another version .* it holds no average$"):
        run(path, SHORT)
    assert file.read_bytes() == older


class Poisoned(ChainLearner):
    """A number that is not finite comes up in iteration 4, in one of several places."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place
        self._iteration = 0

    def iterate(self, iteration: int) -> Mapping[str, float]:
        self._iteration = iteration
        metrics = dict(super().iterate(iteration))
        if iteration != 4:
            return metrics
        if self._place == "loss":
            metrics["loss"] = math.inf
        if self._place == "policy":
            with torch.no_grad():
                self.policy.weight[0, 1] = math.nan
        if self._place == "gradient":
            self.optimiser.step(torch.full((6,), math.nan))
        return metrics

    def validate(self) -> Mapping[str, float]:
        bad = self._place == "score" and self._iteration == 4
        return {"score": math.nan} if bad else super().validate()


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("loss", "loss is inf"),
        ("policy", "1 of 6 numbers of policy are not finite"),
        ("gradient", "gradient norm is nan"),
        ("score", "validation/score is nan"),
    ],
)
def test_a_number_that_is_not_finite_stops_the_run(
    tmp_path: Path, place: str, problem: str
) -> None:
    """One line names iteration and cause; the state before is kept; a resume repeats it."""
    path = tmp_path / "run"
    settings = LoopSettings(iterations=12, validate_every=5, checkpoint_every_s=1000.0)
    for _ in range(2):
        with pytest.raises(NotFiniteError, match=f"iteration 4: {problem}") as stopped:
            run(path, settings, Poisoned(place))
    assert "\n" not in str(stopped.value)
    assert "resuming the run repeats that iteration exactly" in str(stopped.value)

    report = json.loads((path / "failure" / "report.json").read_text())
    assert report["iteration"] == 4
    assert problem in report["problem"]
    assert report["config"] == {"seed": SEED}
    before, _ = load_tensors(path / "failure" / "state.safetensors")
    expected, _ = run(tmp_path / "short", LoopSettings(iterations=4, validate_every=5))
    assert torch.equal(before["policy"], expected.policy.weight)

    learner, _ = run(path, settings)  # the cause is gone
    straight, _ = run(tmp_path / "straight", settings)
    assert torch.equal(learner.policy.weight, straight.policy.weight)


def test_a_full_disk_stops_the_run_and_loses_nothing_saved(
    tmp_path: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line; with room again the run goes on to the same result."""
    path = tmp_path / "run"
    replace, calls = os.replace, list[object]()

    def full_after_a_while(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) > 8:
            raise OSError(28, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patches:
        patches.setattr(os, "replace", full_after_a_while)
        with pytest.raises(RunError, match="No space left on device; the previous file"):
            run(path, SHORT)
    run(path, SHORT)
    assert_same_run(path, uninterrupted)


def test_it_trains_in_any_thread(tmp_path: Path, uninterrupted: Path) -> None:
    thread = threading.Thread(target=run, args=(tmp_path / "run", SHORT))
    thread.start()
    thread.join()
    assert_same_run(tmp_path / "run", uninterrupted)
