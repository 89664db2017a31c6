"""Question for a comparison of policies on a session's own jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from traces.estimates import Estimates


class Question(NamedTuple):
    """Question for `decima.spark.candidates`."""

    slots: int
    order: str
    """Spark's own, by the name that the simulator has: fifo or spark_fair"""
    ran: str
    """what was in force, by name"""
    ran_since_ms: int
    """since the epoch; jobs that arrived before are not compared"""
    candidates: Sequence[str]
    estimates: Estimates
    """what policies know of durations in this session"""
    jobs: Sequence[Mapping[str, Any]]
    """lines of the decision log (`LiveJob.java`), by arrival"""
    is_timed: bool
    """the jobs came at their times; False: only the jobs are known"""
    parameters: Mapping[str, Mapping[str, float]]
    """of candidates, where they are not those that the package ships"""
