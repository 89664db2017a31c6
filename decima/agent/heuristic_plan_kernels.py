"""Compiled: a heuristic's choices of one round, as a plan of the network's form."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent.kernels import inlined_kernel, kernel
from decima.heuristics import run
from decima.heuristics.compiled import Numbers, Scratch
from spark_sim.kernels.dispatch import assign, observed
from spark_sim.kernels.opening import leaving, room_under
from spark_sim.tables import ANY, DECIDE, DONE, NONE, State
from traces.numbers import Int64

_decide = run.decide


class Round(NamedTuple):
    """One decision: what may be chosen, and arrays for the label. O stages, J jobs."""

    stage: Int64  # (O,) rows of the simulation's own stages
    job: Int64  # (O,) index among the J jobs
    limit: Int64  # (M,) the parallelism limits
    limit_ptr: Int64  # (J + 1,)
    kind: Int64  # (K,) the classes
    kind_ptr: Int64  # (O + 1,)
    held: Int64  # (J,) scratch
    is_placed: NDArray[np.bool_]  # (O,) scratch
    # The label, as in `plans.Plans`:
    order: Int64  # (O + 1,)
    chosen_limit: Int64  # (J,)
    chosen_kind: Int64  # (O + 1,)


@kernel
def label(state: State, code: int, parameters: Numbers, scratch: Scratch, out: Round) -> int:
    """Choose for one round as the heuristic would, and write it as a plan; changes `state`.

    The label ends where `choices.follow` would: when the round is over or due again. It also ends
    before a choice that a plan cannot express.

    Returns:
        number of the plan's entries that the round uses; 0 if the network has no such first choice.
    """
    stages = len(out.stage)
    out.is_placed[:] = False
    out.held[:] = -1
    out.chosen_limit[:] = -1
    out.chosen_kind[:] = -1
    count = 0
    used = 0
    status = DECIDE
    while status == DECIDE:
        stage, limit, kind = _decide(code, observed(state), parameters, scratch)
        if stage == NONE:
            out.order[count] = stages
            used = count + 1
            break
        entry = _entry(out, stage)
        if entry < 0:
            break
        if len(state.classes) > 1:
            number = _class_index(state, out, entry, limit, kind)
            if number < 0 or (out.is_placed[entry] and out.chosen_kind[entry] != number):
                break
            out.chosen_kind[entry] = number
            kind = out.kind[out.kind_ptr[0] + number]
        if not out.is_placed[entry]:
            out.is_placed[entry] = True
            out.order[count] = entry
            count += 1
        status = _give(state, out, entry, limit, kind)
        used = count
    _place_rest(out, count, used)
    for job in range(len(out.held)):
        _choose_limit(out, job)
    return used


@inlined_kernel
def _give(state: State, out: Round, entry: int, limit: int, kind: int) -> int:
    """Apply one choice and record how many executors its job shall hold. That may exceed what it
    gets of one class, and decima-sim counts only at the round's end.

    Returns DECIDE while the plan continues, as in `choices.follow`.
    """
    row = state.stages[out.stage[entry]]
    held, demand = state.jobs[row["job"]]["held"], row["num_tasks"] - row["covered"]
    wanted = min(limit - held, demand, state.clock[0]["on_offer"])
    if len(state.classes) > 1 and state.clock[0]["source_job"] == row["job"]:
        # Executors that finish the job's last tasks count against its limit until they leave.
        wanted = min(limit - held, wanted + state.clock[0]["releasing"])
    out.held[out.job[entry]] = held + wanted
    known = state.clock[0]["open_stages"] - 1
    status = assign(state, out.stage[entry], limit, kind)
    if status != DECIDE:
        return status
    if len(state.classes) > 1:
        known = 0
        for stage in out.stage:
            known += state.stages[stage]["open"]
    has_run_out = kind != ANY and row["open"] == 1
    return DONE if has_run_out or state.clock[0]["open_stages"] > known else DECIDE


@inlined_kernel
def _entry(out: Round, stage: int) -> int:
    """Index of a stage among those that may be chosen; -1 if it is none of them."""
    for entry in range(len(out.stage)):
        if out.stage[entry] == stage:
            return entry
    return -1


@inlined_kernel
def _class_index(state: State, out: Round, entry: int, limit: int, kind: int) -> int:
    """Return the index of a class among those of a stage, -1 if there is none. Without a class it
    is the first that is given: the smallest on offer, unless the limit only leaves room for
    executors that finish their last tasks in the job.
    """
    job = state.stages[out.stage[entry]]["job"]
    room = room_under(state, job, limit)
    found = -1
    for row in range(out.kind_ptr[entry], out.kind_ptr[entry + 1]):
        own = out.kind[row]
        if kind == own:
            return int(row - out.kind_ptr[0])
        if kind == ANY and state.classes[own]["on_offer"] > 0:
            if room + leaving(state, job, own) > 0:
                return int(row - out.kind_ptr[0])
            if found < 0:
                found = int(row - out.kind_ptr[0])
    return found


@inlined_kernel
def _place_rest(out: Round, count: int, used: int) -> None:
    """Move the entries that were not chosen to the end, where they are not used."""
    stages = len(out.stage)
    place = count
    if used > count:
        place += 1
    else:
        out.order[place] = stages
        place += 1
    for entry in range(stages):
        if not out.is_placed[entry]:
            out.order[place] = entry
            place += 1
        if out.chosen_kind[entry] < 0 and out.kind_ptr[entry + 1] > out.kind_ptr[entry]:
            out.chosen_kind[entry] = out.kind_ptr[entry] - out.kind_ptr[0]
    out.chosen_kind[stages] = -1


@inlined_kernel
def _choose_limit(out: Round, job: int) -> None:
    """Return the limit nearest, in ratio, to what the job holds after the round."""
    first, last = out.limit_ptr[job], out.limit_ptr[job + 1]
    best = math.inf
    for row in range(first, last):
        distance = abs(math.log(max(1.0, float(out.limit[row])) / max(1.0, float(out.held[job]))))
        if distance < best:
            best = distance
            out.chosen_limit[job] = row - out.limit_ptr[0]
