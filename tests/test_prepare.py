"""What is said while functions are compiled, and that everything can be compiled beforehand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from decima import prepare
from decima.kernels import POLICIES
from tests.commands import decima, succeeded
from traces.files.private import write_private

ROOT = Path(__file__).parents[1]
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


def test_one_command_compiles_what_all_need(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    steps = [(name, lambda name=name: done.append(name)) for name in ("one", "two")]
    monkeypatch.setattr(prepare, "all_steps", lambda: iter(steps))
    result = succeeded(decima("prepare"))
    assert done == ["one", "two"]
    assert result.stderr.splitlines() == ["preparing: one", "preparing: two"]
    assert re.fullmatch(r"ready after \d+ s\n", result.stdout)


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
