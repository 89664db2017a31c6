"""`decima prepare`: everything can be compiled beforehand, and is compiled once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from decima import prepare
from decima.kernels import POLICIES
from tests.commands import decima, succeeded
from traces.files.private import write_private


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
    """But the training's: every training begins with it."""
    monkeypatch.setattr(prepare, "write_private", lambda *_: None)
    monkeypatch.setattr("decima.training.warm_up.warm_up", lambda _config: None)
    dict(prepare.all_steps())[name]()


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_several_processes_find_everything_compiled(
    mode: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first command with `--workers` does it, in one process; later ones do not. A folder that
    others may write to is no cache: other processes would not find it.
    """
    done = []
    folder = tmp_path / "policies"
    monkeypatch.setitem(vars(POLICIES), "folder", str(folder))
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setattr(prepare, "decima_steps", lambda: iter([("one", lambda: done.append(1))]))
    prepare.prepare_once()
    assert done == ([1] if mode == 0o700 else [])
    assert not prepare.is_prepared()
    if mode == 0o700:
        write_private(prepare._mark(), b"")
        prepare.prepare_once()
        assert done == [1]
        assert prepare.is_prepared()
