"""What is said while functions are compiled, and that everything can be compiled beforehand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from decima import prepare
from tests.commands import decima, succeeded

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
def test_every_step_runs(name: str) -> None:
    dict(prepare.all_steps())[name]()
