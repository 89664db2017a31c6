"""Kernels compile in processes of their own, as far as there are cores."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from decima import ahead
from decima.agent.kernels import AGENT
from spark_sim import Protocol
from spark_sim.compile import SIMULATOR
from tests.commands import python

START = ["-P", "-m", "decima.ahead"]
CHOICES = [*START, "choices", "1", "strict_fair", "fifo"]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands of the processes that are started, which do nothing."""
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command[1:]))
    return started


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Start processes for some policies, with so many cores and nothing cached."""

    def start(*names: str, cores: int = 2, protocol: Protocol | None = Protocol.SESSION) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
        for kernels in (AGENT, SIMULATOR):
            monkeypatch.setitem(kernels.__dict__, "folder", str(tmp_path / "cache" / kernels.name))
        ahead.compile_ahead(names, protocol)

    return start


def test_the_network_comes_first(commands: list[list[str]], start: Callable[..., None]) -> None:
    start("decima", "strict_fair")
    assert commands == [[*START, "network"]]


def test_each_is_started_once(commands: list[list[str]], start: Callable[..., None]) -> None:
    start("strict_fair", "fifo", "decima", cores=3)
    start("strict_fair", "fifo", "decima", cores=3)
    assert commands == [[*START, "network"], CHOICES]


def test_heuristics_alone(commands: list[list[str]], start: Callable[..., None]) -> None:
    """Where they are simulated: a live session needs their choice alone."""
    start("strict_fair", "fifo", protocol=None)
    assert commands == []
    start("strict_fair", "fifo")
    assert commands == [CHOICES]


def refuse_folders(cache: Path) -> None:
    cache.touch()


def let_others_write(cache: Path) -> None:
    """Code in such a folder would not be used."""
    cache.mkdir()
    cache.chmod(0o777)


@pytest.mark.parametrize(
    ("cores", "prepare"), [(1, None), (3, refuse_folders), (3, let_others_write)]
)
def test_nothing_is_started_without_a_core_or_a_folder(
    cores: int,
    prepare: Callable[[Path], None] | None,
    commands: list[list[str]],
    start: Callable[..., None],
    tmp_path: Path,
) -> None:
    if prepare is not None:
        prepare(tmp_path / "cache")
    start("decima", "fifo", cores=cores)
    assert commands == []


def test_they_run_no_module_of_the_working_folder(tmp_path: Path) -> None:
    """A folder of data may well be called `traces`."""
    for name in ("traces", "decima"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not this one')")
    code = """
import sys
from decima.rl.parallel.module import begin_module
sys.path = [entry for entry in sys.path if entry]
sys.exit(begin_module("decima.ahead", "network").wait())
"""
    assert python("-P", "-c", code, folder=tmp_path) == ""


# In processes of their own, as there; the kernels are cached here, so that takes a moment.


def test_one_loads_all_kernels_of_a_plan() -> None:
    code = """
import runpy, sys
from decima.agent import forward_kernels, plans
sys.argv = ["ahead", "network"]
runpy.run_module("decima.ahead", run_name="__main__")
print(len(forward_kernels.forward.outer.overloads), len(plans.plan.outer.overloads))
"""
    assert python("-c", code).split() == ["1", "1"]


def test_the_other_loads_what_a_run_needs() -> None:
    """A run after it finds `run` compiled for its own types."""
    code = """
import runpy, sys
import numpy as np
from decima.heuristics import run
from decima.registry import Heuristic
from spark_sim import Cluster, Protocol, Simulator
from spark_sim.kernels import dispatch
from traces import load_trace, to_arrays
sys.argv = ["ahead", "choices", "1", "fifo"]
runpy.run_module("decima.ahead", run_name="__main__")
loaded = [dispatch._ASSIGN.is_loaded(number) for number in range(3)]
print(loaded, run._CALLS.is_loaded(run.number_of("fifo")), len(run.run.outer.overloads))
cluster = Cluster(num_executors=3, protocol=Protocol.SESSION)
arrays, job = to_arrays(load_trace("random-dag")), np.zeros(1, np.int32)
simulator = Simulator(arrays, cluster, np.zeros(1), job)
Heuristic("fifo").play(simulator)
print(len(run.run.outer.overloads))
"""
    assert python("-c", code).splitlines() == ["[False, True, False] True 1", "1"]
