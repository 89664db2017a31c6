"""Where commands write: refused before any work is done, and notes on settings that hardly fit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from decima import EvaluationConfig
from decima.cli.options import notes_of
from decima.errors import ConfigError
from decima.evaluation import evaluate
from decima.rl.parallel.local import LocalPool
from tests.commands import Command, refused
from traces import Job, LevelDurations, Stage, Trace

FIFO = ["--policies", "fifo"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that takes no file")
def test_a_folder_that_takes_no_file_is_refused_before_the_runs(run: Command) -> None:
    """Though its permissions, asked by root, say otherwise."""
    refused(run(*FIFO, "--json", "/proc/out.json"), "/proc/out.json: cannot write")


def test_a_page_is_named_as_one(run: Command, tmp_path: Path) -> None:
    refused(run(*FIFO, "--report", tmp_path / "page.pdf"), "page.pdf", ".html")
    assert list(tmp_path.iterdir()) == []


def test_processes_of_a_pool_leave_ctrl_c_to_the_command() -> None:
    """From their first moment: one that is interrupted while it imports would print where."""
    with LocalPool(2) as pool:
        asked = {number: number for number in range(20)}
        found = dict(value for _, value in pool.map(_blocked, None, asked, label="asking"))
    assert not found.pop(os.getpid(), False)
    assert len(found) >= 1
    assert all(found.values())


def _blocked(_shared: Any, _task: int) -> tuple[int, bool]:
    """Who is asked, and whether Ctrl-C does not reach it."""
    status = Path(f"/proc/{os.getpid()}/status").read_text()
    (mask,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigBlk"))
    return os.getpid(), bool(int(mask, 16) & 2)


class Nameless:
    """A policy that lacks its name."""


class Named:
    """One that is given as it is, not to be made."""

    name = "mine"


@pytest.mark.parametrize(("own", "words"), [(Named(), "give its class"), (Nameless, "`name`")])
def test_policies_of_ones_own_are_checked_first(own: Any, words: str) -> None:
    config = EvaluationConfig(policies=("fifo",), jobs=2, sequences=1)
    with pytest.raises(ConfigError, match=words):
        evaluate(config, own=(own,))


def test_a_share_of_a_job_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"jobs is a whole number, not 1\.5"):
        EvaluationConfig(jobs=1.5)  # type: ignore[arg-type]


def test_short_tasks_and_long_moves_are_noted() -> None:
    """Tasks of a recorded session, on executors that move between applications."""
    stage = Stage("s", 10, (), (LevelDurations.of(1, first_ms=[100.0], rest_ms=[100.0]),))
    short = Trace("short", (Job("a", (stage,)),))
    config = EvaluationConfig(executors=2, interarrival_s=0.5)
    (note,) = notes_of(config, short)
    assert "2 s to move" in note
    assert "0.1 s on average" in note
    session = EvaluationConfig(executors=2, interarrival_s=0.5, protocol="session")
    assert notes_of(session, short) == []
