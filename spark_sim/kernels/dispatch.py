"""Entry points of the kernels: the three protocols, compiled when needed, and observations.

Also `follow`: a sequence of choices within one round, decided beforehand in order of preference.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core import types

from spark_sim.cluster import Cluster
from spark_sim.compile import inlined_kernel, kernel
from spark_sim.compiled.late import LateCalls
from spark_sim.compiled.reference import Reference, by_reference
from spark_sim.kernels import decima_sim, executors, session
from spark_sim.kernels.common import first_open
from spark_sim.kernels.executors import is_on_offer
from spark_sim.observation import observe
from spark_sim.setup import build_state
from spark_sim.tables import ANY, DECIDE, DONE, FORCED, NONE, State
from traces import Job, Stage, Trace, to_arrays
from traces.numbers import Int64

# numba's stubs do not know its type.
_typeof: Any = numba.typeof


def _smallest() -> State:
    """Return a run of one job of one task."""
    arrays = to_arrays(Trace("smallest", (Job("job", (Stage.fixed("stage", 1, 1.0, []),)),)))
    arrival_ms, job = np.zeros(1), np.zeros(1, np.int32)
    return build_state(arrays, Cluster(), arrival_ms, job, 0, timeline=False)


@cache
def state_type() -> Any:
    """Return numba's type of every `State`."""
    return _typeof(_smallest())


@cache
def observation_type() -> Any:
    """Return numba's type of every `Observation`."""
    return _typeof(observe(_smallest()))


observed = inlined_kernel(observe)


def _of_state(count: int) -> Any:
    """Return the signature of kernels that take a state and `count` numbers."""
    return lambda: types.int64(Reference(state_type()), *[types.int64] * count)


_PROTOCOLS = (executors, session, decima_sim)  # by the value of `Protocol`
_ADVANCE = LateCalls("decima_advance", [part.advance for part in _PROTOCOLS], _of_state(0))
_ASSIGN = LateCalls("decima_assign", [part.assign for part in _PROTOCOLS], _of_state(3))
_advance, _assign = _ADVANCE.call, _ASSIGN.call
load_assign = _ASSIGN.load
"""Compile the kernels of a protocol that apply a choice, or load them, unless they are."""


def load(protocol: int) -> None:
    """Compile the kernels of a protocol, or load them, if they were not called yet."""
    _ADVANCE.load(protocol)
    load_assign(protocol)


@inlined_kernel
def advance(state: State) -> int:
    """Run events until the next decision (DECIDE) or the end (DONE, TRUNCATED, DEADLOCK)."""
    tables = by_reference(state)
    status = _advance(state.clock[0]["protocol"], (tables,))
    while status == FORCED:
        _force_progress(tables)
        status = _advance(state.clock[0]["protocol"], (tables,))
    return int(status)


@inlined_kernel
def assign(state: State, stage: int, limit: int, only: int) -> int:
    """Apply one decision: DECIDE while its round is open, DONE when it closed, or ILLEGAL.

    `only` is the class of the executors to give, or ANY; only the default protocol knows classes.
    """
    passed = (by_reference(state), stage, limit, only)
    return int(_assign(state.clock[0]["protocol"], passed))


@kernel
def _force_progress(state: State) -> None:
    """Give one executor to the first stage of the oldest job that may be chosen.

    Nothing runs and nothing will arrive, but the policy left all executors idle. Without this rule
    the run would end here with jobs unfinished (decima-sim fails an assertion).
    """
    clock = state.clock[0]
    decisions = clock["decisions"]  # of the policy
    stage = first_open(state)
    held = state.jobs[state.stages[stage]["job"]]["held"]
    clock["forced"] += 1
    if assign(state, stage, held + 1, ANY) == DECIDE:
        assign(state, NONE, 0, ANY)
    clock["decisions"] = decisions


@inlined_kernel
def step(state: State, stage: int, limit: int, only: int) -> int:
    """Apply one decision and run to the next: DECIDE, ILLEGAL, or how the run ended."""
    tables = by_reference(state)
    status = assign(tables, stage, limit, only)
    if status == DONE:
        return advance(tables)
    return status


@kernel
def step_commit(state: State, stage: int, count: int) -> int:
    """Step with decima-sim's own action: executors to add instead of a limit."""
    status = decima_sim.commit(state, stage, count)
    if status == DONE:
        return advance(state)
    return status


class Preferences(NamedTuple):
    """Preferred stages of each of B simulations, best first.

    K entries in all: every stage that may be chosen, and once `NONE`, which ends the round.
    """

    ptr: Int64  # (B + 1,) simulation b has the entries ptr[b]:ptr[b + 1]
    stage: Int64  # (K,) row
    limit: Int64  # (K,) of the stage's job, if the stage is chosen
    kind: Int64  # (K,) class of the executors, row of CLASS; or ANY


@kernel
def follow(state: State, wanted: Preferences, index: int) -> tuple[int, int]:
    """Choose by the preferences of simulation `index` until its round ends, then run on.

    A stage whose job has reached its limit is skipped. If a choice opens a stage that is not among
    the preferences, or a class runs out before a stage has its share, the round is due again. Of a
    round about jobs that wait for a place the first choice is the last.
    Returns the run's state (DECIDE or its end) and the number of entries used.
    """
    tables = by_reference(state)
    first, last = wanted.ptr[index], wanted.ptr[index + 1]
    is_admission = tables.clock[0]["is_admission"] == 1
    for entry in range(first, last):
        stage = wanted.stage[entry]
        used = entry - first + 1
        if stage == NONE:
            status = assign(tables, NONE, 0, ANY)
            return (status if is_admission and status == DECIDE else advance(tables)), used
        row = tables.stages[stage]
        if row["open"] == 0 or tables.jobs[row["job"]]["held"] >= wanted.limit[entry]:
            continue
        kind = wanted.kind[entry]
        if kind != ANY and not is_on_offer(tables, stage, kind):
            return DECIDE, used - 1
        known = tables.clock[0]["open_stages"] - 1
        status = assign(tables, stage, wanted.limit[entry], kind)
        if status == DONE:
            return advance(tables), used
        if is_admission:
            return status, used
        if len(tables.classes) > 1:  # then a choice may also close others
            known = _count_open(tables, wanted.stage, first, last)
        has_run_out = kind != ANY and row["open"] == 1
        if status != DECIDE or tables.clock[0]["open_stages"] > known or has_run_out:
            return status, used
    return DECIDE, last - first


@inlined_kernel
def _count_open(state: State, stage: Int64, first: int, last: int) -> int:
    """Count the entries that may be chosen."""
    count = 0
    for entry in range(first, last):
        if stage[entry] != NONE and state.stages[stage[entry]]["open"] == 1:
            count += 1
    return count
