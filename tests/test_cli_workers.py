"""`--workers` and `--cluster`: who computes, and what is refused before anything is written."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from decima.rl.parallel import local
from decima.rl.parallel.errors import ClusterError
from tests.commands import Command, decima, refused, succeeded
from tests.test_training import sets

NO_MASTER = "spark://nowhere:7077: nobody answers there"


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:

    def fail(*_: object, **__: object) -> None:
        raise ClusterError(NO_MASTER)

    monkeypatch.setattr("decima.rl.parallel.session.open_session", fail)


CALLS: list[tuple[str, Callable[[Path], list[Any]]]] = [
    ("evaluate", lambda out: ["--json", out]),
    ("tune", lambda out: ["--policy", "tuned_srw", "-o", out]),
    ("fit-rule", lambda out: ["--generations", 1, "-o", out]),
]


def test_a_training_on_no_cluster_leaves_no_folder(
    trace_file: Path, tmp_path: Path, no_cluster: None
) -> None:
    """Which would have to be removed before the next try."""
    out = tmp_path / "run"
    words = ["--out", out, "--set", f"workload.trace={trace_file}", "--cluster", "spark://no:1"]
    refused(decima("train", *words), NO_MASTER)
    assert not out.exists()


@pytest.mark.parametrize(("command", "options"), CALLS)
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--cluster", "spark://nowhere:7077"), NO_MASTER),
        (("--workers", 2, "--cluster", "local[2]"), "contradicts --cluster"),
        (("--cluster-archive", __file__), "it goes with --cluster"),
    ],
)
def test_a_cluster_that_cannot_compute_is_one_line(
    run: Command,
    tmp_path: Path,
    no_cluster: None,
    command: str,
    options: Callable[[Path], list[Any]],
    words: tuple[object, ...],
    reason: str,
) -> None:
    """One that is not there, and options that contradict each other."""
    refused(run(*words, *options(tmp_path / "out.json"), command=command), reason)
    assert list(tmp_path.iterdir()) == []


def test_several_processes_tune_as_one_does(run: Command, tmp_path: Path) -> None:
    for workers in (1, 2):
        words = ("--policy", "tuned_weighted_fair", "-o", tmp_path / f"{workers}.json")
        succeeded(run(*words, "--workers", workers, command="tune"))
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()


# --- a process that is killed ------------------------------------------------------------------


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills every worker process as soon as it has its first task, as a system without memory."""
    give = local._Process.give

    def deadly(process: local._Process, *arguments: Any) -> None:
        give(process, *arguments)
        os.kill(process._process.pid or 0, signal.SIGKILL)

    monkeypatch.setattr(local._Process, "give", deadly)


@pytest.mark.parametrize(("command", "options"), CALLS)
def test_a_killed_worker_is_one_line(
    run: Command, tmp_path: Path, killer: None, command: str, options: Callable[[Path], list[Any]]
) -> None:
    """With the likely cause; nothing was kept that could be resumed."""
    result = run("--workers", 2, *options(tmp_path / "out.json"), command=command)
    refused(result, "a worker process was ended by SIGKILL", "memory ran out")
    assert "--resume" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_training_whose_worker_is_killed_can_be_resumed(
    trace_file: Path, tmp_path: Path, killer: None
) -> None:
    out = tmp_path / "run"
    words = ["train", "--out", str(out), "--workers", "2", *sets(trace_file)]
    result = decima(*words)
    assert result.exit_code == 2, result.output
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: a worker process was ended by SIGKILL")
    assert last.endswith(f"`decima train --out {out} --resume` continues the run")
    succeeded(decima("train", "--out", out, "--resume"))
    assert (out / "model.safetensors").exists()


def test_memory_that_runs_out_is_one_line(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object, **__: object) -> NoReturn:
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr("decima.evaluation.runner._play_part", greedy)
    refused(run("--policies", "fifo"), "memory ran out", "9 TiB")
    monkeypatch.setattr("decima.cli.evaluate.run_evaluation", greedy)
    refused(run("--policies", "fifo"), "memory ran out: Unable to allocate 9 TiB")
