"""The network's kernels compile in a process of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from decima.agent import ahead
from decima.agent.kernels import AGENT
from tests.commands import python


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands of the processes that are started, which do nothing."""
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return started


def test_it_is_started_once_where_nothing_is_compiled(
    commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(AGENT.__dict__, "folder", str(tmp_path / "agent"))
    ahead.compile_ahead()
    ahead.compile_ahead()
    assert [command[1:] for command in commands] == [["-P", "-m", "decima.agent.ahead"]]


@pytest.mark.parametrize("lacking", ["privacy", "a folder", "a second core"])
def test_it_is_not_started_where_its_code_would_not_be_used(
    lacking: str, commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others may write, where no folder can be made, and on one core."""
    above = tmp_path / "above"
    if lacking == "a folder":
        above.touch()
    else:
        above.mkdir()
        above.chmod(0o777 if lacking == "privacy" else 0o700)
    if lacking == "a second core":
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setitem(AGENT.__dict__, "folder", str(above / "agent"))
    ahead.compile_ahead()
    assert commands == []


def test_it_runs_no_module_of_the_working_folder(tmp_path: Path) -> None:
    """A folder of data may well be called `traces`."""
    for name in ("traces", "decima"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not this one')")
    code = """
import sys
from decima.rl.parallel.module import begin_module
sys.path = [entry for entry in sys.path if entry]
sys.exit(begin_module("decima.agent.ahead").wait())
"""
    assert python("-P", "-c", code, folder=tmp_path) == ""


def test_it_loads_all_kernels_of_a_plan() -> None:
    """In a process of its own, as there; they are cached here, so that takes a moment."""
    code = """
import runpy
from decima.agent import forward_kernels, plans
runpy.run_module("decima.agent.ahead", run_name="__main__")
print(len(forward_kernels.forward.outer.overloads), len(plans.plan.outer.overloads))
"""
    assert python("-c", code).split() == ["1", "1"]
