"""Choices of policy "auto" from figures made by hand, nothing simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from decima.spark import candidates
from decima.spark.auto import Question
from decima.spark.decision_log import prior_rows
from tests.stories import stage
from traces import Job, Trace
from traces.numbers import Float64


def compared(monkeypatch: pytest.MonkeyPatch, **averages_s: Sequence[float]) -> candidates.Verdict:
    """Verdict on candidates with these averages on four sequences; fifo takes 10 to 13 s."""
    known = {"fifo": [10.0, 11.0, 12.0, 13.0], **averages_s}
    average_s = lambda _world, name, _runs: np.array(known[name])  # noqa: E731
    monkeypatch.setattr(candidates.World, "average_s", average_s)
    monkeypatch.setattr(candidates.World, "resampled", lambda _world, number: number)
    row = {"name": "j", "arrival_ms": 0, "completion_ms": None, "own_ms": 0, "stages": []}
    asked = Question(4, "fifo", "fifo", 0, tuple(averages_s), "exact", [row], False, {})
    monkeypatch.setattr(candidates.World, "__init__", lambda world, question: None)
    monkeypatch.setattr(candidates.World, "error", lambda _world: None)
    monkeypatch.setattr(candidates.World, "followers", lambda _world: 0.0)
    return candidates.compare(asked)


def test_a_session_changes_only_for_what_is_certainly_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lower by a tenth on average, but not for certain; certainly by a twentieth."""
    unsure, sure = [5.0, 12.5, 9.0, 14.9], [9.6, 10.4, 11.5, 12.2]
    assert compared(monkeypatch, tuned_srw=unsure).best is None
    assert compared(monkeypatch, tuned_srw=unsure).differences["tuned_srw"].mean == pytest.approx(
        -10.0
    )
    assert compared(monkeypatch, tuned_srw=sure).best == "tuned_srw"
    assert compared(monkeypatch, tuned_srw=unsure, es_rule=sure).best == "es_rule"
    better = [jct * 0.97 for jct in sure]
    assert compared(monkeypatch, tuned_srw=sure, es_rule=better).best == "es_rule"
    assert compared(monkeypatch, tuned_srw=better, es_rule=sure).best == "tuned_srw"
    assert compared(monkeypatch, tuned_srw=[11.0, 12.1, 13.1, 14.3]).best is None
    assert compared(monkeypatch).best is None


def logged(number: int, end_ms: int | None, own_ms: int = 500) -> dict[str, Any]:
    """A job of four tasks of 2 s that came in the second of its number."""
    (row,) = prior_rows(Trace("one", (Job(f"job {number}", (stage("s", 4, 2000.0),)),)))
    return row | {"arrival_ms": 1000 * number, "completion_ms": end_ms, "own_ms": own_ms}


def world_of(
    *rows: dict[str, Any], is_timed: bool = True, ran_since_ms: int = 0
) -> candidates.World:
    asked = Question(4, "fifo", "es_rule", ran_since_ms, (), "exact", rows, is_timed, {})
    return candidates.World(asked)


def test_the_error_is_of_what_ran_and_counts_sparks_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1.5 s are predicted and 0.5 s are Spark's own: 3 s are half as much again."""
    asked: list[str] = []

    def jct_s(_world: Any, policy: str, runs: Sequence[Any]) -> list[Float64]:
        asked.append(policy)
        return [np.full(len(run.job), 1.5) for run in runs]

    monkeypatch.setattr(candidates.World, "_jct_s", jct_s)
    rows = [logged(number, 1000 * number + 3000) for number in range(4)]
    error = world_of(*rows).error()
    assert error is not None
    assert error.mean == pytest.approx(50.0)
    assert asked == ["es_rule"]
    world = world_of(*rows)
    assert world.average_s("fifo", [world.resampled(0), world.resampled(1)]).tolist() == [2.0, 2.0]
    assert world_of(rows[0], logged(1, None)).error() is None, "one job is no stretch"
    assert world_of(*rows, ran_since_ms=2500).error() is None
    assert world_of(*rows, ran_since_ms=1500).error() is not None
    assert world_of(*rows, is_timed=False).error() is None


def test_resampled_jobs_begin_at_0_and_fill_the_slots_to_four_fifths() -> None:
    """8 s of work on 4 slots: one job each 2.5 s where only jobs are known; else their gaps."""
    rows = [logged(number, None) for number in range(60)]
    untimed = world_of(*rows, is_timed=False)
    runs = [untimed.resampled(number) for number in range(30)]
    assert {run.arrival_ms[0] for run in runs} == {0.0}
    gaps_s = [np.diff(run.arrival_ms).mean() / 1000 for run in runs]
    assert np.mean(gaps_s) == pytest.approx(2.0 / candidates.ASSUMED_LOAD, rel=0.05)
    timed = world_of(*rows).resampled(0)
    assert np.diff(timed.arrival_ms) == pytest.approx(1000.0)
    assert timed.arrival_ms[0] == 0.0
