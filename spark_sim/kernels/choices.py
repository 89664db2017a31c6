"""Several choices of one round at once, decided beforehand and in an order of preference."""

from __future__ import annotations

from typing import NamedTuple

from spark_sim.compile import kernel
from spark_sim.kernels.dispatch import advance, assign
from spark_sim.tables import ANY, DECIDE, DONE, NONE, State
from traces.numbers import Int64


class Preferences(NamedTuple):
    """For each of B simulations, the stages that it would choose from, the preferred ones first.

    K entries in all: every stage that may be chosen, and once `NONE`, which ends the round.
    """

    ptr: Int64  # (B + 1,) simulation b has the entries ptr[b]:ptr[b + 1]
    stage: Int64  # (K,) row
    limit: Int64  # (K,) of the stage's job, if the stage is chosen


@kernel
def follow(state: State, wanted: Preferences, index: int) -> tuple[int, int]:
    """Choose by the preferences of simulation `index` until its round ends, then run on.

    A stage whose job has reached its limit by then is passed over. Where choosing opens a stage
    that is not among the preferences, they end there, and the round is due again.

    Returns how the run stands (DECIDE or how it ended) and how many entries were looked at.
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
        others = state.clock[0]["open_stages"] - 1
        status = assign(state, stage, wanted.limit[entry], ANY)
        if status == DONE:
            return advance(state), used
        if status != DECIDE or state.clock[0]["open_stages"] > others:
            return status, used
    return DECIDE, last - first
