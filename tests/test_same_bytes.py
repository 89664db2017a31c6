"""The same command twice leaves the same bytes; what differs, timings, is in files of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from decima.cli.main import main as decima
from deeprm.cli import main as deeprm
from tests.commands import Command, succeeded
from tests.test_training import sets


def twice(folder: Path, make: Callable[[Path], object]) -> None:
    """Make the same files twice, a second apart, and compare them."""
    contents: list[dict[Path, bytes]] = []
    for number in (1, 2):
        time.sleep(1.1 * (number - 1))  # beyond the resolution of times in file formats
        out = folder / "out"
        out.mkdir()
        make(out)
        files = [path for path in out.rglob("*") if path.is_file()]
        assert files
        contents.append({path.relative_to(out): path.read_bytes() for path in files})
        out.rename(folder / f"done {number}")
    first, second = contents
    assert first.keys() == second.keys()
    assert [path for path in first if first[path] != second[path]] == []


def test_an_evaluation_is_the_same_to_the_byte(run: Command, tmp_path: Path) -> None:
    """Figures, page and every kind of timeline."""

    def make(out: Path) -> None:
        for timeline in ("tasks.parquet", "tasks.csv", "tasks.json.gz"):
            files = ("--report", out / "page.html", "--timeline", out / timeline)
            succeeded(run("--policies", "fifo,random,decima", "--json", out / "out.json", *files))

    twice(tmp_path, make)


def test_timings_have_a_file_of_their_own(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "timings.json"
    assert run("--policies", "fifo,sjf_cp", "--timings", path).exit_code == 0
    content = json.loads(path.read_text())
    assert (content["format"], content["version"]) == ("decima-timings", 1)
    assert list(content["cpu_s"]) == ["fifo", "sjf_cp"]
    for spent in content["cpu_s"].values():
        assert set(spent) == {"policy", "environment"}
        assert min(spent.values()) >= 0


@pytest.mark.parametrize("program", [decima, deeprm], ids=["decima", "deeprm"])
def test_a_trained_model_is_the_same_to_the_byte(
    program: click.Group, trace_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no training time in its card, which is in the folder's metrics."""
    # The commit is part of the card, and may change while tests run.
    monkeypatch.setattr("decima.rl.run_folder.environment", lambda: {"git_commit": "abc"})
    choices: dict[click.Group, list[str]] = {
        decima: sets(trace_file, "imitate.iterations=1", "reinforce.iterations=1"),
        deeprm: ["--set", "iterations=1", "--set", "job_sets=2", "--set", "episodes=2",
                 "--set", "validation_sets=2", "--set", "imitation=0"],
    }  # fmt: skip
    few = choices[program]

    def make(out: Path) -> None:
        succeeded(CliRunner().invoke(program, ["train", "--out", str(out / "run"), *few]))
        for path in (out / "run").rglob("*"):
            if path.is_file() and not path.name.startswith("model."):
                path.unlink()

    twice(tmp_path, make)
    card = b"trained_s"
    assert all(card not in path.read_bytes() for path in tmp_path.rglob("model.*"))
