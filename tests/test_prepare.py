"""`decima prepare`: everything can be compiled beforehand."""

from __future__ import annotations

import re

import pytest

from decima import prepare
from tests.commands import decima, succeeded


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
    monkeypatch.setattr("decima.training.warm_up.warm_up", lambda _config: None)
    dict(prepare.all_steps())[name]()
