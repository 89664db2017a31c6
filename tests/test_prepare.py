"""What is said while functions are compiled, and that everything can be compiled beforehand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from decima import prepare
from decima.kernels import POLICIES
from spark_sim.compiled import progress
from spark_sim.compiled.cache import IMPORTED, READY, KernelCache
from spark_sim.compiled.progress import Announcer
from tests.commands import decima, succeeded
from traces.files.private import write_private

ROOT = Path(__file__).parents[1]
PACKAGE = "package of this test"

TINY = """
from spark_sim.compiled.progress import announce
from spark_sim.compile import kernel

@kernel
def called(value):
    return 2 * value

@kernel
def calls(value):
    return called(value) + 1

announce()
announce()
print(calls(20.5), calls(20))
"""


def run_tiny(tmp_path: Path) -> str:
    """What a program writes on stderr that compiles two functions."""
    script = tmp_path / "tiny.py"
    script.write_text(TINY)
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(script)],
        env={**os.environ, **cache},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "42.0 41\n", done.stderr
    return done.stderr


def test_the_first_compilation_of_a_program_is_said_and_loading_is_not(tmp_path: Path) -> None:
    """Once, however many functions follow, and with the name of the package."""
    assert run_tiny(tmp_path) == (
        "compiling for this machine (simulator): minutes at first, then cached\n"
    )
    assert run_tiny(tmp_path) == ""


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Announcer, list[str], Clock]]:
    """An announcer, its lines, and its clock; the package has three functions, one compiled."""
    lines: list[str] = []
    clock = Clock()
    monkeypatch.setattr(Announcer, "tell", lambda _self, line: lines.append(line))
    monkeypatch.setattr(progress, "time", clock)
    IMPORTED[PACKAGE], READY[PACKAGE] = 3, 1
    yield Announcer(), lines, clock
    del IMPORTED[PACKAGE], READY[PACKAGE]


def event(package: str | None = PACKAGE) -> Any:
    """As numba reports a function."""
    cache = None if package is None else KernelCache(len, None, package)
    IMPORTED[PACKAGE] = 3  # which the line above has counted
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(_cache=cache)})


def test_a_long_compilation_says_every_ten_seconds_how_far_it_is(
    told: tuple[Announcer, list[str], Clock],
) -> None:
    """Functions inside others, and the time that all of them took; pauses do not count."""
    announcer, lines, clock = told
    one = event()
    announcer.on_start(one)
    announcer.on_start(one)
    clock.now_s += 9
    announcer.on_end(one)
    assert len(lines) == 1
    clock.now_s += 2
    announcer.on_end(one)
    assert lines[1:] == [f"compiling: {PACKAGE}, 2 of at most 3 functions, 11 s so far"]
    clock.now_s += 1_000  # a simulation
    announcer.on_start(one)
    clock.now_s += 4
    announcer.on_end(one)
    assert lines[2:] == [f"compiling: {PACKAGE}, 2 of at most 3 functions, 15 s so far"]


def test_one_command_compiles_what_all_need(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    steps = [(name, lambda name=name: done.append(name)) for name in ("one", "two")]
    monkeypatch.setattr(prepare, "all_steps", lambda: iter(steps))
    found = succeeded(decima("prepare"))
    assert done == ["one", "two"]
    assert found.stderr.splitlines() == ["preparing: one", "preparing: two"]
    assert re.fullmatch(r"ready after \d+ s\n", found.stdout)


@pytest.mark.parametrize("name", [name for name, _ in prepare.all_steps()])
def test_every_step_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "write_private", lambda *_: None)
    dict(prepare.all_steps())[name]()


def test_several_processes_find_everything_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first command with `--workers` does it, in one process; later ones do not."""
    done = []
    monkeypatch.setitem(vars(POLICIES), "folder", str(tmp_path / "policies"))
    (tmp_path / "policies").mkdir(0o700)
    monkeypatch.setattr(prepare, "decima_steps", lambda: iter([("one", lambda: done.append(1))]))
    prepare.prepare_once()
    assert done == [1]
    assert not prepare.is_prepared()
    write_private(prepare._mark(), b"")
    prepare.prepare_once()
    assert done == [1]
    assert prepare.is_prepared()


def test_what_cannot_be_kept_is_not_prepared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A folder that others may write to is no cache: other processes would not find it."""
    done = []
    monkeypatch.setitem(vars(POLICIES), "folder", str(tmp_path / "policies"))
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies").chmod(0o777)
    monkeypatch.setattr(prepare, "decima_steps", lambda: iter([("one", lambda: done.append(1))]))
    prepare.prepare_once()
    assert done == []
