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
    assert [command[1:] for command in commands] == [["-m", "decima.agent.ahead"]]


@pytest.mark.parametrize("mode", [0o777, 0o500])
def test_it_is_not_started_where_its_work_would_be_lost(
    mode: int, commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that others may write to, or nobody."""
    if mode == 0o500 and os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(mode)
    monkeypatch.setitem(AGENT.__dict__, "folder", str(tmp_path / "agent"))
    ahead.compile_ahead()
    assert commands == []


def test_it_is_not_started_on_one_core(
    commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setitem(AGENT.__dict__, "folder", str(tmp_path / "agent"))
    ahead.compile_ahead()
    assert commands == []


def test_it_loads_all_kernels_of_a_plan() -> None:
    """In a process of its own, as there; they are cached here, so that takes a moment."""
    code = """
import runpy
from decima.agent import forward_kernels, plans
runpy.run_module("decima.agent.ahead", run_name="__main__")
print(len(forward_kernels.forward.outer.overloads), len(plans.plan.outer.overloads))
"""
    assert python("-c", code).split() == ["1", "1"]
