"""`HeuristicPlans`: a heuristic's choices of one round, as a plan of the network's form."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from decima.agent.columns import Choices
from decima.agent.kernels import inlined_kernel, kernel
from decima.agent.plans import Plans
from decima.heuristics import run
from decima.heuristics.spec import Numbers, Scratch
from decima.registry import Heuristic
from spark_sim.kernels.dispatch import assign, observed
from spark_sim.kernels.executors import leaving, room_under
from spark_sim.setup import copied
from spark_sim.tables import ANY, DECIDE, DONE, NONE, State, Table
from traces.arrays import TraceArrays
from traces.numbers import Int64

_decide = run.decide


class HeuristicPlans:
    """Plans of one heuristic: labels of an imitation."""

    def __init__(self, name: str, trace: TraceArrays, classes: Table) -> None:
        self._compiled = Heuristic(name).compiled(trace, classes)

    def write(
        self, state: State, choices: Choices, stage_row: Int64, plans: Plans, plan: int
    ) -> int:
        """Replace one of the plans by that of the heuristic.

        Args:
            state: the simulation that the plan is for.
            choices: what may be chosen, O stages and J jobs in all.
            stage_row: (O,) rows of the stages in the simulation's own table.
            plans: to change.
            plan: index of the plan among them.

        Returns:
            number of entries that the round uses; 0 where the network lacks the heuristic's first
            choice, and the plan is void.
        """
        held = np.full(len(choices.decision_of_job), -1, np.int64)
        is_placed = np.zeros(len(choices.open_stage), np.bool_)
        return int(
            _label(copied(state), *self._compiled, choices, stage_row, plans, plan, held, is_placed)
        )


@kernel
def _label(
    state: State,
    number: int,
    parameters: Numbers,
    scratch: Scratch,
    choices: Choices,
    stage_row: Int64,
    plans: Plans,
    plan: int,
    held: Int64,
    is_placed: NDArray[np.bool_],
) -> int:
    """Choose for one round as the heuristic would, and write it as a plan; changes `state`.

    The label ends where `choices.follow` would: when the round is over or due again. It also ends
    before a choice that a plan cannot express.

    Args:
        state: a copy of the simulation.
        number: of the heuristic, and so its `parameters` and `scratch`.
        choices: what may be chosen.
        stage_row: (O,) rows of the simulation's own stages.
        plans: to change.
        plan: index of the plan among them.
        held: (J,) -1, to note what a job shall hold.
        is_placed: (O,) false, to note the stages that have a place in the order.
    """
    decision = plans.decision[plan]
    first, last = choices.open_ptr[decision], choices.open_ptr[decision + 1]
    order = plans.order[plans.ptr[plan] : plans.ptr[plan + 1]]
    chosen_kind = plans.kind[plans.ptr[plan] : plans.ptr[plan + 1]]
    stages = last - first
    first_kind = choices.kind_ptr[first]
    chosen_kind[:] = -1
    count = 0
    used = 0
    status = DECIDE
    while status == DECIDE:
        stage, limit, kind = _decide(number, observed(state), parameters, scratch)
        if stage == NONE:
            order[count] = stages
            used = count + 1
            break
        entry = 0
        while entry < stages and stage_row[first + entry] != stage:
            entry += 1
        if entry == stages:
            break
        if len(state.classes) > 1:
            row = _class_row(state, choices, first + entry, stage, limit, kind)
            if row < 0 or (is_placed[first + entry] and chosen_kind[entry] != row - first_kind):
                break
            chosen_kind[entry] = row - first_kind
            kind = choices.kind[row]
        if not is_placed[first + entry]:
            is_placed[first + entry] = True
            order[count] = entry
            count += 1
        status = _give(
            state, stage_row[first:last], held, choices.open_job[first + entry], stage, limit, kind
        )
        used = count
    _place_rest(choices, first, is_placed[first:last], order, chosen_kind, count, used)
    first_job = choices.job_ptr[decision]
    for job in range(first_job, choices.job_ptr[decision + 1]):
        row = _nearest_limit(choices, job, held[job])
        limit_at = plans.job_ptr[plan] + job - first_job
        plans.limit[limit_at] = row - choices.limit_ptr[first_job] if row >= 0 else -1
    return used


@inlined_kernel
def _place_rest(
    choices: Choices,
    first: int,
    is_placed: NDArray[np.bool_],
    order: Int64,
    chosen_kind: Int64,
    count: int,
    used: int,
) -> None:
    """Move the entries that were not chosen to the end, where they are not used."""
    stages = len(is_placed)
    place = count
    if used == count:
        order[place] = stages
    place += 1
    for entry in range(stages):
        if not is_placed[entry]:
            order[place] = entry
            place += 1
        first_kind = choices.kind_ptr[first + entry]
        if chosen_kind[entry] < 0 and choices.kind_ptr[first + entry + 1] > first_kind:
            chosen_kind[entry] = first_kind - choices.kind_ptr[first]
    chosen_kind[stages] = -1


@inlined_kernel
def _give(
    state: State, stage_row: Int64, held: Int64, job: int, stage: int, limit: int, kind: int
) -> int:
    """Apply one choice and record how many executors its job shall hold. That may exceed what it
    gets of one class, and decima-sim counts only at the round's end.

    Returns DECIDE while the plan continues, as in `choices.follow`.
    """
    row = state.stages[stage]
    holds, demand = state.jobs[row["job"]]["held"], row["num_tasks"] - row["covered"]
    wanted = min(limit - holds, demand, state.clock[0]["on_offer"])
    if len(state.classes) > 1 and state.clock[0]["source_job"] == row["job"]:
        # Executors that finish the job's last tasks count against its limit until they leave.
        wanted = min(limit - holds, wanted + state.clock[0]["releasing"])
    held[job] = holds + wanted
    known = state.clock[0]["open_stages"] - 1
    status = assign(state, stage, limit, kind)
    if status != DECIDE:
        return status
    if len(state.classes) > 1:
        known = 0
        for other in stage_row:
            known += state.stages[other]["open"]
    has_run_out = kind != ANY and row["open"] == 1
    return DONE if has_run_out or state.clock[0]["open_stages"] > known else DECIDE


@inlined_kernel
def _class_row(
    state: State, choices: Choices, entry: int, stage: int, limit: int, kind: int
) -> int:
    """Return the row of a class among those of an open stage, -1 if there is none. Without a class
    it is the first that is given: the smallest on offer, unless the limit only leaves room for
    executors that finish their last tasks in the job.
    """
    job = state.stages[stage]["job"]
    room = room_under(state, job, limit)
    smallest = -1
    for row in range(choices.kind_ptr[entry], choices.kind_ptr[entry + 1]):
        candidate = choices.kind[row]
        if kind == candidate:
            return int(row)
        if kind == ANY and state.classes[candidate]["on_offer"] > 0:
            if room + leaving(state, job, candidate) > 0:
                return int(row)
            if smallest < 0:
                smallest = int(row)
    return smallest


@inlined_kernel
def _nearest_limit(choices: Choices, job: int, held: int) -> int:
    """Return the row of the limit nearest, in ratio, to what the job holds after the round."""
    nearest = -1
    least = math.inf
    for row in range(choices.limit_ptr[job], choices.limit_ptr[job + 1]):
        distance = abs(math.log(max(1.0, float(choices.limit[row])) / max(1.0, float(held))))
        if distance < least:
            least = distance
            nearest = int(row)
    return nearest
