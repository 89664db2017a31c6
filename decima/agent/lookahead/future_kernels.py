"""Compiled: the cost of the jobs in the system under a plan, in a newly drawn future."""

from __future__ import annotations

import math

import numpy as np

from decima.agent.lookahead.kernels import inlined_kernel, kernel
from decima.heuristics import run as heuristics
from decima.heuristics.compiled import Numbers, Scratch
from spark_sim.kernels.choices import Preferences, follow
from spark_sim.kernels.durations import pick_level, task_hash
from spark_sim.kernels.queue import push
from spark_sim.tables import DECIDE, DONE, RUNNING, TASK_DONE, State
from traces.arrays import REST

_run = heuristics.run
_TRIES = 16  # draws of a duration longer than a task has run already
_OVERDUE = 0.1  # rest of a task that has run longer than all draws, over its stage's mean duration
_MIX = np.uint64(0x9E3779B97F4A7C15)


@kernel
def forget(state: State, key: np.uint64) -> None:
    """Replace what a scheduler cannot know: no job arrives, and durations are drawn again. A
    running task's duration is drawn given the time that it has run already.
    """
    clock = state.clock[0]
    clock["num_jobs"] = clock["num_queued"] = clock["next_arrival"]
    clock["time_limit_ms"] = np.inf
    clock["duration_key"] = key
    for index in range(clock["num_active"]):
        job = state.jobs[state.active[index]]
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            state.stages[stage]["hash"] = 0
    for executor in range(len(state.executors)):
        if state.executors[executor]["state"] == RUNNING:
            left_ms = _left_ms(state, executor, key)
            push(state, executor, clock["time_ms"] + left_ms, TASK_DONE)


@inlined_kernel
def _left_ms(state: State, executor: int, key: np.uint64) -> float:
    """Draw the remaining time of the task of `executor`."""
    worker = state.executors[executor]
    row = state.stages[worker["stage"]]
    job = state.jobs[row["job"]]
    elapsed_ms = state.clock[0]["time_ms"] - worker["since_ms"]
    local = worker["stage"] - job["first_stage"]
    for number in range(_TRIES):
        bits = task_hash(key + np.uint64(number) * _MIX, row["job"], local, worker["task"])
        low = bits & np.uint64(0xFFFFFFFF)
        level = pick_level(state.trace, row["template"], job["attached"], low)
        count = np.uint64(state.trace.wave_count[level, REST])
        index = np.int64(((bits >> np.uint64(32)) * count) >> np.uint64(32))
        whole_ms = state.trace.samples_ms[state.trace.wave_start[level, REST] + index]
        if whole_ms > elapsed_ms:
            return float(whole_ms - elapsed_ms)
    return float(_OVERDUE * row["mean_ms"])


@kernel
def cost_ms(
    state: State,
    wanted: Preferences,
    plan: int,
    code: int,
    parameters: Numbers,
    scratch: Scratch,
) -> float:
    """Follow a plan for one round, then a heuristic; return the jobs' time in the system from now
    on. It is infinite if jobs never end. `state` is changed.
    """
    before_ms = state.clock[0]["job_time_ms"]
    status, _ = follow(state, wanted, plan)
    if status == DECIDE:
        status, _ = _run(state, code, parameters, scratch, False)
    if status != DONE:
        return math.inf
    return float(state.clock[0]["job_time_ms"] - before_ms)
