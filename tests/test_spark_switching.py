"""`policy="auto"`: what is put in force, and what is left behind where something fails."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from decima.spark import AttachError, AutoSettings, attach, attaching

# --- attaching -----------------------------------------------------------------------------------


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """`attach` takes anything for a session, and nothing acts on it."""
    monkeypatch.setattr(attaching, "check_session", lambda spark: spark)
    monkeypatch.setattr(attaching, "_control", lambda _, mode, __: (SimpleNamespace(), mode))
    monkeypatch.setattr(attaching, "_order", lambda _: "fifo")


def test_what_is_refused_leaves_no_thread(no_session: None) -> None:
    """Whatever the reason, and however often."""
    before = set(threading.enumerate())
    cases: list[tuple[str, AutoSettings, str]] = [
        ("strict_fair", AutoSettings(), "auto is for policy="),
        ("auto", AutoSettings(candidates=("nobody",)), "nobody"),
    ]
    for policy, auto, said in cases:
        with pytest.raises((AttachError, ValueError), match=said):
            attach(SimpleNamespace(), policy, mode="shadow", auto=auto)
    assert set(threading.enumerate()) == before
