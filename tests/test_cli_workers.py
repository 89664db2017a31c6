"""`--workers` and `--cluster`: who computes, and what is refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from decima.cli.main import main
from decima.rl.parallel.errors import ClusterError
from tests.commands import Command, refused

NO_MASTER = "spark://nowhere:7077: nobody answers there"


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """No master answers."""

    def fail(*_: object, **__: object) -> None:
        raise ClusterError(NO_MASTER)

    monkeypatch.setattr("decima.rl.parallel.session.open_session", fail)


CALLS: list[tuple[str, Callable[[Path], list[Any]]]] = [
    ("evaluate", lambda out: ["--json", out]),
    ("tune", lambda out: ["--policy", "tuned_srw", "-o", out]),
    ("fit-rule", lambda out: ["--generations", 1, "-o", out]),
]


@pytest.mark.parametrize(("command", "options"), CALLS, ids=[name for name, _ in CALLS])
def test_a_cluster_that_is_not_there_is_one_line(
    run: Command,
    tmp_path: Path,
    no_cluster: None,
    command: str,
    options: Callable[[Path], list[Any]],
) -> None:
    """Nothing is written."""
    words = options(tmp_path / "out.json")
    refused(run("--cluster", "spark://nowhere:7077", *words, command=command), NO_MASTER)
    assert list(tmp_path.iterdir()) == []


def test_a_training_on_no_cluster_leaves_no_folder(
    trace_file: Path, tmp_path: Path, no_cluster: None
) -> None:
    """Which would have to be removed before the next try."""
    out = tmp_path / "run"
    words = ["--out", out, "--set", f"workload.trace={trace_file}", "--cluster", "spark://no:1"]
    refused(CliRunner().invoke(main, ["train", *map(str, words)]), NO_MASTER)
    assert not out.exists()


@pytest.mark.parametrize("command", ["evaluate", "tune", "fit-rule"])
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--workers", 2, "--cluster", "local[2]"), "contradicts --cluster"),
        (("--cluster-archive", __file__), "it goes with --cluster"),
        (("--workers", 0), "0 is not in the range 1<="),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    run: Command, tmp_path: Path, command: str, words: tuple[object, ...], reason: str
) -> None:
    """By every command that computes."""
    options = dict(CALLS)[command](tmp_path / "out.json")
    refused(run(*words, *options, command=command), reason)


def test_several_processes_tune_as_one_does(run: Command, tmp_path: Path) -> None:
    """The same file."""
    for workers in (1, 2):
        words = ("--policy", "tuned_weighted_fair", "-o", tmp_path / f"{workers}.json")
        found = run(*words, "--workers", workers, command="tune")
        assert found.exit_code == 0, found.output
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()
