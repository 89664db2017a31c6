"""Policies of other authors: they read, and cannot write."""

from __future__ import annotations

import numpy as np
import pytest

from decima.heuristics.run import decide
from decima.registry import Heuristic
from decima.spark.attaching import Guest
from spark_sim import PASS, Action, Observation, Protocol
from spark_sim.observation import read_only
from spark_sim.rounds import Round, session_tables
from tests.stories import job, stage
from traces import Trace, to_arrays


def seen() -> Observation:
    """Two jobs of nine tasks each on twelve slots."""
    trace = Trace("two", tuple(job(name, stage("s", 9, 1_000)) for name in "ab"))
    return Round(session_tables(to_arrays(trace), 12, np.array([0.0, 5.0]))).observation()


class Writes:
    name = "writes"

    def decide(self, observation: Observation) -> Action:
        observation.jobs["held"][:] = 0
        return PASS


def test_a_policy_of_others_cannot_write() -> None:
    """It fails for it, and nothing has changed; one that asks ours gets the same answers."""
    with pytest.raises(ValueError, match="read-only"):
        Guest(Writes()).decide(seen())
    rule = Heuristic("strict_fair")
    assert Guest(rule).decide(seen()) == rule.decide(seen())


def test_other_types_of_numbers_and_tables_are_converted() -> None:
    """An observation made by hand has them, or read-only views: compiling kernels anew would take
    seconds, inside a decision.
    """
    rule = Heuristic("strict_fair")
    plain = seen()
    twice = np.repeat(plain.jobs, 2)
    other = plain._replace(
        protocol=Protocol(plain.protocol),
        time_ms=np.float32(plain.time_ms),  # type: ignore[arg-type]
        num_executors=np.int32(plain.num_executors),  # type: ignore[arg-type]
        active=plain.active.astype(np.int64),
        jobs=twice[::2],
    )
    expected = rule.decide(plain)
    compiled = len(decide.outer.signatures)  # type: ignore[attr-defined]
    assert [rule.decide(seen) for seen in (other, read_only(plain))] == [expected] * 2
    assert len(decide.outer.signatures) == compiled  # type: ignore[attr-defined]
