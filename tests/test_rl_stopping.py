"""A training stops soon when asked to, or when its time is over, whatever an iteration takes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner

from decima.cli.main import main as decima
from decima.rl import stopping
from decima.rl.checkpoint import load_tensors
from decima.rl.loop import StopReason
from decima.rl.run_folder import RunFolder
from decima.training.learner import DecimaLearner
from deeprm.cli import main as deeprm
from deeprm.learner import DeepRmLearner
from harmony.cli import main as harmony
from harmony.learner import HarmonyLearner
from tests.chain_learner import SHORT, ChainLearner, assert_same_run, run

LONG_S = 60.0
"""a whole iteration, in these tests"""
SOON_S = 30.0

Do = Callable[[], None]


@pytest.fixture(autouse=True)
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterations have 0.3 s to end after a request to stop."""
    monkeypatch.setattr(stopping, "GRACE_S", 0.3)


@contextlib.contextmanager
def ends_soon() -> Iterator[None]:
    """Fail unless the block takes less than `SOON_S`, and leaves handlers and timer as before."""
    handlers = [
        signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    ]
    begun_s = time.monotonic()
    yield
    assert time.monotonic() - begun_s < SOON_S
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert handlers == [
        signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    ]


def kill(number: int) -> Do:
    return lambda: os.kill(os.getpid(), number)


class SlowLearner(ChainLearner):
    """From iteration 4 on it takes a minute, in the update or in the validation."""

    def __init__(self, do: Do, in_validation: bool) -> None:
        super().__init__()
        self._do = do
        self._in_validation = in_validation
        self._iteration = 0

    def iterate(self, iteration: int) -> Mapping[str, float]:
        self._iteration = iteration
        result = super().iterate(iteration)
        if not self._in_validation:
            self._wait()
        return result

    def validate(self) -> Mapping[str, float]:
        if self._in_validation:
            self._wait()
        return super().validate()

    def _wait(self) -> None:
        if self._iteration >= 4:
            self._do()
            time.sleep(LONG_S)  # is interrupted


@pytest.mark.parametrize(
    ("number", "in_validation"), [(signal.SIGINT, False), (signal.SIGTERM, True)]
)
def test_a_signal_gives_up_an_iteration_that_takes_long(
    tmp_path: Path, number: int, in_validation: bool
) -> None:
    """The run stands where it began, and a resumed one is the same as one never stopped."""
    learner = SlowLearner(kill(number), in_validation)
    with ends_soon():
        _, result = run(tmp_path / "run", SHORT, learner)
    done = 5 if in_validation else 4  # there is a validation after every third
    assert (result.reason, result.state.next_iteration) == (StopReason.SIGNAL, done)
    saved, _ = load_tensors(tmp_path / "run" / "checkpoint.safetensors")
    assert torch.equal(learner.policy.weight, saved["policy"])

    run(tmp_path / "run", SHORT)
    run(tmp_path / "whole", SHORT)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_a_second_sigterm_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "GRACE_S", LONG_S)

    def twice() -> None:
        kill(signal.SIGTERM)()
        kill(signal.SIGTERM)()

    with ends_soon():
        _, result = run(tmp_path / "run", SHORT, SlowLearner(twice, False))
    assert (result.reason, result.state.next_iteration) == (StopReason.SIGNAL, 4)


def test_trainings_compute_with_one_thread(tmp_path: Path) -> None:
    """Whatever the caller has set, which is set again behind it."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    threads = []
    try:
        run(
            tmp_path / "run", SHORT, ChainLearner(lambda _: threads.append(torch.get_num_threads()))
        )
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert set(threads) == {1}


# --- the commands --------------------------------------------------------------------------------

DECIMA = ("--executors", "3", "--interarrival", "40", "--set", "imitate.iterations=3",
          "--set", "reinforce.iterations=0", "--set", "evolve.iterations=0")  # fmt: skip
DEEPRM = ("--set", "iterations=3", "--set", "validation_sets=2")
HARMONY = ("--set", "iterations=3", "--set", "validation_sequences=1", "--set", "cluster.jobs=4")
COMMANDS = [
    pytest.param(decima, DecimaLearner, DECIMA, id="decima"),
    pytest.param(deeprm, DeepRmLearner, DEEPRM, id="deeprm"),
    pytest.param(harmony, HarmonyLearner, HARMONY, id="harmony"),
]


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "--minutes"])
@pytest.mark.parametrize(("command", "learner", "options"), COMMANDS)
def test_every_command_that_trains_logs_at_once_and_stops_soon(
    command: click.Group,
    learner: type,
    options: tuple[str, ...],
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In an iteration that takes a minute; what there is can be resumed."""

    begun_s: list[float] = []

    def iterate(_self: object, _iteration: int) -> Mapping[str, float]:
        begun_s.append(time.monotonic())
        if how != "--minutes":
            kill(getattr(signal, how))()
        time.sleep(LONG_S)  # is interrupted
        return {}

    monkeypatch.setattr("deeprm.session.TUNING_SETS", 2)
    monkeypatch.setattr("decima.training.learner.warm_up", lambda _config: None)
    monkeypatch.setattr(learner, "iterate", iterate)
    limit = ("--minutes", "0.01") if how == "--minutes" else ()
    result = CliRunner().invoke(
        command, ["train", "--out", str(tmp_path / "run"), *options, *limit]
    )
    assert result.exit_code == (0 if how == "--minutes" else 130), result.output
    assert time.monotonic() - begun_s[0] < LONG_S
    first = result.stderr.splitlines()[0]
    assert first.startswith(("training in ", "preparing", "compiling"))
    assert "iteration 0/3, begun\n" in result.stderr
    reason = "time limit reached" if how == "--minutes" else "asked to stop"
    assert reason in result.stdout
    if how == "--minutes" and command is not decima:  # what has learned nothing looks like a model
        assert "before the first iteration had ended, so there is no model" in result.stdout
    assert (tmp_path / "run" / "model.safetensors").exists() == (command is decima)
    with RunFolder.open(tmp_path / "run") as folder:
        assert folder.checkpoint_file.is_file()
