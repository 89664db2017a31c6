"""`LiveTables`: a live session in the simulator's tables, so that policies see no difference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from spark_sim import Action
from spark_sim.rounds import Round, session_tables
from spark_sim.tables import State
from traces.arrays import TraceArrays
from traces.numbers import Float64

GRAPH = ("slots", "arrival_ms", "first_stage", "first_child", "children")
"""columns of `RoundMessage.java` that stay the same until jobs or stages come or go"""
_OF_CLOCK = ("time_ms", "last_arrival_ms", "typical_ms", "inflation")
_OF_JOBS = ("work_ms", "remaining_ms")
_OF_STAGES = ("num_tasks", "launched", "finished", "runnable", "mean_ms", "critical_path_ms")


class LiveTables:
    """Tables of the active jobs; made anew when their graphs change, else only refilled."""

    def __init__(self) -> None:
        self.trace: TraceArrays | None = None
        """the graphs that the tables point to; another object whenever they have changed"""
        self._state: State | None = None
        self._graph: dict[str, Any] = {}

    def fill(self, message: Mapping[str, Any]) -> Round:
        """Begin a round, of which some slots may be given (`RoundMessage.java`)."""
        graph = {name: message[name] for name in GRAPH}
        if self._state is None or graph != self._graph:
            self._graph = graph
            self.trace = graph_arrays(message)
            arrival_ms = np.array(message["arrival_ms"], np.float64)
            self._state = session_tables(self.trace, message["slots"], arrival_ms)
        refill(self._state, message)
        round_ = Round(self._state)
        for stage, limit in message["given"]:
            round_.assign(Action(stage, limit))
        return round_


def refill(state: State, message: Mapping[str, Any]) -> None:
    """Overwrite the columns that change while jobs run with those of a message."""
    stages, jobs, clock = state.stages, state.jobs, state.clock
    for columns, names in ((stages, _OF_STAGES), (jobs, _OF_JOBS), (clock, _OF_CLOCK)):
        for name in names:
            columns[name] = message[name]
    gap_ms = message["mean_gap_ms"]
    clock["mean_gap_ms"] = math.inf if gap_ms is None else gap_ms
    first = jobs["first_stage"]
    done = (stages["finished"] == stages["num_tasks"]).astype(np.int32)
    jobs["stages_done"] = np.add.reduceat(done, first)
    jobs["attached"] = np.add.reduceat(stages["launched"] - stages["finished"], first)


def graph_arrays(message: Mapping[str, Any]) -> TraceArrays:
    """The jobs' graphs as a trace whose tasks all take their stage's expected duration."""
    mean_ms: Float64 = np.array(message["mean_ms"], np.float64)
    count = len(mean_ms)
    first = np.array(message["first_stage"], np.int64)
    first_child = np.array(message["first_child"], np.int64)
    children = np.array(message["children"], np.int64)
    first_of_stage = np.repeat(first[:-1], np.diff(first))
    return TraceArrays(
        weight=np.ones(len(first) - 1),
        deadline_ms=np.full(len(first) - 1, np.inf),
        first_stage=first.astype(np.int32),
        num_tasks=np.array(message["num_tasks"], np.int32),
        mean_ms=mean_ms,
        critical_path_ms=np.array(message["critical_path_ms"], np.float64),
        num_parents=np.bincount(children, minlength=count).astype(np.int32),
        cpu=np.full(count, np.nan),
        memory_mb=np.full(count, np.nan),
        slots=np.ones(count, np.int32),
        barrier=np.zeros(count, np.bool_),
        first_child=first_child.astype(np.int32),
        children=(children - np.repeat(first_of_stage, np.diff(first_child))).astype(np.int32),
        first_level=np.arange(count + 1, dtype=np.int32),
        level_executors=np.ones(count, np.int32),
        wave_start=np.repeat(np.arange(count, dtype=np.int64)[:, None], 3, axis=1),
        wave_count=np.ones((count, 3), np.int32),
        wave_mean_ms=np.repeat(mean_ms[:, None], 3, axis=1),
        fresh_is_measured=np.ones(count, np.bool_),
        samples_ms=mean_ms.astype(np.float32),
    )
