"""Batched simulations: stepping in lockstep and listing observations, one call for all.

The simulations of a `spark_sim.vector.VectorSimulator` are *stacked*: a `State` whose tables have
one more axis in front, one row a simulation, padded to the largest. `member` cuts one out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.dispatch import Preferences, follow, step
from spark_sim.kernels.executors import is_on_offer
from spark_sim.observation import ObservationBatch
from spark_sim.tables import ANY, DECIDE, DECIMA_SIM, EXECUTORS, NONE, State
from traces.numbers import Int64


class Actions(NamedTuple):
    """One action for each of B simulations."""

    stage: NDArray[np.int64]  # (B,) row of the batch, NONE to pass
    limit: NDArray[np.int64]  # (B,)
    kind: NDArray[np.int64]  # (B,) row of the simulation's classes, or ANY


class LaneProgress(NamedTuple):
    """Progress of B simulations."""

    status: NDArray[np.int64]  # (B,) a `Status`
    charged_ms: NDArray[np.float64]  # (B,) job-milliseconds in the rewards so far
    reward_s: NDArray[np.float64]  # (B,) of the last step


@inlined_kernel
def member(stacked: State, index: int) -> State:
    """The tables of one of the stacked simulations: views, not copies."""
    return State(
        stacked.clock[index],
        stacked.jobs[index],
        stacked.stages[index],
        stacked.executors[index],
        stacked.classes[index],
        stacked.running[index],
        stacked.idle[index],
        stacked.events[index],
        stacked.commits[index],
        stacked.active[index],
        stacked.chosen[index],
        stacked.queue[index],
        stacked.asked[index],
        stacked.plan[index],
        stacked.timers[index],
        stacked.allocation[index],
        stacked.caps[index],
        stacked.timeline[index],
        stacked.trace,
    )


# --- stepping ------------------------------------------------------------------------------------


@kernel
def step_all(
    stacked: State, batch: ObservationBatch, actions: Actions, progress: LaneProgress
) -> int:
    """Apply one action to each simulation, run each to its next decision, note the rewards.

    Returns the first simulation whose action is illegal (nothing has changed then), else NONE.
    """
    for index in range(len(actions.stage)):
        if not _is_legal(member(stacked, index), batch, actions, index):
            return index
    for index in range(len(actions.stage)):
        progress.reward_s[index] = 0.0
        if progress.status[index] == DECIDE:
            state = member(stacked, index)
            row = actions.stage[index]
            stage = NONE if row == NONE else batch.stage_row[row]
            progress.status[index] = step(state, stage, actions.limit[index], actions.kind[index])
            job_time_ms = state.clock[0]["job_time_ms"]
            progress.reward_s[index] = (progress.charged_ms[index] - job_time_ms) / 1000.0
            progress.charged_ms[index] = job_time_ms
    return NONE


@kernel
def follow_all(stacked: State, wanted: Preferences, used: Int64, progress: LaneProgress) -> None:
    """Run `choices.follow` in each simulation at a decision; note rewards and used entries.

    Args:
        stacked: the simulations.
        wanted: stages in the simulations' own numbers.
        used: (B,) to fill: entries used.
        progress: of the simulations.
    """
    for index in range(len(used)):
        used[index] = 0
        progress.reward_s[index] = 0.0
        if progress.status[index] == DECIDE:
            state = member(stacked, index)
            progress.status[index], used[index] = follow(state, wanted, index)
            job_time_ms = state.clock[0]["job_time_ms"]
            progress.reward_s[index] = (progress.charged_ms[index] - job_time_ms) / 1000.0
            progress.charged_ms[index] = job_time_ms


@kernel
def _is_legal(state: State, batch: ObservationBatch, actions: Actions, index: int) -> bool:
    """Return whether the protocol accepts the action: the rules of all three `assign`."""
    row = actions.stage[index]
    if row == NONE:
        return True
    if not batch.stage_ptr[index] <= row < batch.stage_ptr[index + 1]:
        return False
    number = batch.stage_row[row]
    stage = state.stages[number]
    limit = actions.limit[index]
    held = state.jobs[stage["job"]]["held"]
    kind = actions.kind[index]
    has_classes = state.clock[0]["protocol"] == EXECUTORS
    if kind != ANY and has_classes and not is_on_offer(state, number, kind):
        return False
    return bool(stage["open"] == 1 and held < limit <= state.clock[0]["num_executors"])


# --- observations --------------------------------------------------------------------------------


@inlined_kernel
def is_due(state: State) -> bool:
    """Return whether a decision is due (in decima-sim also if no stage can be chosen)."""
    clock = state.clock[0]
    return bool(
        clock["on_offer"] > 0 and (clock["open_stages"] > 0 or clock["protocol"] == DECIMA_SIM)
    )


@kernel
def count(state: State, out: ObservationBatch, index: int) -> None:
    """Note where the rows of the simulation called `index` end in `out`."""
    jobs = stages = 0
    trace = state.trace
    if is_due(state):
        jobs = state.clock[0]["num_active"]
        for place in range(jobs):
            job = state.jobs[state.active[place]]
            first = trace.first_stage[job["template"]]
            stages += trace.first_stage[job["template"] + 1] - first
    out.job_ptr[index + 1] = out.job_ptr[index] + jobs
    out.stage_ptr[index + 1] = out.stage_ptr[index] + stages


@kernel
def fill(state: State, out: ObservationBatch, index: int) -> None:
    """Write the rows of the simulation called `index`, which `count` has placed."""
    clock = state.clock[0]
    due = is_due(state)
    out.alive[index] = due
    out.time_ms[index] = clock["time_ms"]
    out.num_executors[index] = clock["num_executors"]
    out.on_offer[index] = clock["on_offer"] if due else 0
    out.source_job[index] = NONE
    out.protocol[index] = clock["protocol"]
    out.moving_delay_ms[index] = clock["moving_delay_ms"]
    out.last_arrival_ms[index] = clock["last_arrival_ms"]
    out.mean_gap_ms[index] = clock["mean_gap_ms"]
    out.typical_ms[index] = clock["typical_ms"]
    out.inflation[index] = clock["inflation"]
    for kind in range(out.classes.shape[1]):
        out.classes[index, kind] = state.classes[kind]
    stage_row = out.stage_ptr[index]
    for row in range(out.job_ptr[index], out.job_ptr[index + 1]):
        number = state.active[row - out.job_ptr[index]]
        out.jobs[row] = state.jobs[number]
        out.job_row[row] = number
        if number == clock["source_job"]:
            out.source_job[index] = row
        first = state.jobs[number]["first_stage"]
        out.jobs[row]["first_stage"] = stage_row
        for stage in range(first, first + state.jobs[number]["num_stages"]):
            out.stages[stage_row] = state.stages[stage]
            out.stages[stage_row]["job"] = row
            out.stage_row[stage_row] = stage
            stage_row += 1


@kernel
def fill_all(stacked: State, out: ObservationBatch) -> bool:
    """Count and write the rows of each stacked simulation. Returns whether there was room."""
    for index in range(len(stacked.clock)):
        count(member(stacked, index), out, index)
    if not has_room(out):
        return False
    for index in range(len(stacked.clock)):
        fill(member(stacked, index), out, index)
    return True


@kernel
def has_room(out: ObservationBatch) -> bool:
    """Return whether all rows that `count` has placed fit."""
    return bool(out.job_ptr[-1] <= len(out.jobs) and out.stage_ptr[-1] <= len(out.stages))
