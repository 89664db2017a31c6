"""Compiled: the plan of a round that a heuristic would make, as a label for the network."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from compiled.kernels import Kernels
from decima.heuristics import run
from decima.heuristics.compiled import Numbers, Scratch
from decima.kernels import POLICIES
from spark_sim.kernels.dispatch import assign
from spark_sim.kernels.view import observed
from spark_sim.tables import ANY, DECIDE, NONE, State
from traces.numbers import Int64

TEACHERS = Kernels("teachers", ("decima/training/teacher_kernels.py",), below=POLICIES)

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


@TEACHERS.kernel
def label(state: State, code: int, parameters: Numbers, scratch: Scratch, out: Round) -> int:
    """Choose for one round as the heuristic would, and write it as a plan; changes `state`.

    The label holds each stage once, where it was first chosen. It ends where choosing has opened a
    stage that the network was not asked about.

    Returns:
        how many entries of the plan the round takes; 0 if the first choice is none of those that
        the network was asked about.
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
        if not out.is_placed[entry]:
            out.is_placed[entry] = True
            out.order[count] = entry
            out.chosen_kind[entry] = _class_index(out, entry, kind)
            count += 1
        status = assign(state, stage, limit, kind)
        out.held[out.job[entry]] = state.jobs[state.stages[stage]["job"]]["held"]
        used = count
    _place_rest(out, count, used)
    for job in range(len(out.held)):
        _choose_limit(out, job)
    return used


@TEACHERS.inlined_kernel
def _entry(out: Round, stage: int) -> int:
    """Index of a stage among those that may be chosen; -1 if it is none of them."""
    for entry in range(len(out.stage)):
        if out.stage[entry] == stage:
            return entry
    return -1


@TEACHERS.inlined_kernel
def _class_index(out: Round, entry: int, kind: int) -> int:
    """Index of a class among those of a stage; the smallest that fits where any would do."""
    first, last = out.kind_ptr[entry], out.kind_ptr[entry + 1]
    for row in range(first, last):
        if kind in (ANY, out.kind[row]):
            return row - out.kind_ptr[0]
    return first - out.kind_ptr[0] if last > first else -1


@TEACHERS.inlined_kernel
def _place_rest(out: Round, count: int, used: int) -> None:
    """Put the entries that were not chosen behind the others; nobody looks at them."""
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


@TEACHERS.inlined_kernel
def _choose_limit(out: Round, job: int) -> None:
    """The limit nearest, in ratio, to what the job holds after the round; the least if no more."""
    first, last = out.limit_ptr[job], out.limit_ptr[job + 1]
    best = math.inf
    for row in range(first, last):
        distance = abs(math.log(max(1.0, float(out.limit[row])) / max(1.0, float(out.held[job]))))
        if distance < best:
            best = distance
            out.chosen_limit[job] = row - out.limit_ptr[0]
