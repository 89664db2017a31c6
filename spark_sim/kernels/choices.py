"""Sequences of choices within one round, decided beforehand in order of preference."""

from __future__ import annotations

from typing import NamedTuple

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.dispatch import advance, assign
from spark_sim.kernels.opening import is_on_offer
from spark_sim.tables import ANY, DECIDE, DONE, NONE, State
from traces.numbers import Int64


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
    the preferences, or a class runs out before a stage has its share, the round is due again.
    Returns the run's state (DECIDE or its end) and the number of entries used.
    """
    first, last = wanted.ptr[index], wanted.ptr[index + 1]
    for entry in range(first, last):
        stage = wanted.stage[entry]
        used = entry - first + 1
        if stage == NONE:
            assign(state, NONE, 0, ANY)
            return advance(state), used
        row = state.stages[stage]
        if row["open"] == 0 or state.jobs[row["job"]]["held"] >= wanted.limit[entry]:
            continue
        kind = wanted.kind[entry]
        if kind != ANY and not is_on_offer(state, stage, kind):
            return DECIDE, used - 1
        known = state.clock[0]["open_stages"] - 1
        status = assign(state, stage, wanted.limit[entry], kind)
        if status == DONE:
            return advance(state), used
        if len(state.classes) > 1:  # then a choice may also close others
            known = _count_open(state, wanted.stage, first, last)
        has_run_out = kind != ANY and row["open"] == 1
        if status != DECIDE or state.clock[0]["open_stages"] > known or has_run_out:
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
