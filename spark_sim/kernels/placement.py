"""Places of executors in the default protocol: idle in a job, in no job, or moving."""

from __future__ import annotations

from spark_sim.compile import inlined_kernel
from spark_sim.kernels.lists import append_idle, remove_idle
from spark_sim.kernels.queue import push
from spark_sim.tables import EXECUTOR_ARRIVED, IDLE, MOVING, NONE, State


@inlined_kernel
def become_idle(state: State, executor: int) -> None:
    """`executor` has nothing to do and stays in its job, warm."""
    worker = state.executors[executor]
    job = state.jobs[worker["job"]]
    worker["state"] = IDLE
    worker["stage"] = NONE
    append_idle(state, worker["job"], executor)
    state.classes[worker["kind"]]["idle"] += 1
    job["local"] += 1
    state.clock[0]["idle_in_jobs"] += 1


@inlined_kernel
def leave_idle(state: State, executor: int) -> None:
    """Take `executor` from the idle ones of its job, or from those of no job."""
    clock = state.clock[0]
    worker = state.executors[executor]
    state.classes[worker["kind"]]["idle"] -= 1
    if worker["job"] == NONE:
        remove_idle(state, NONE, executor)
        clock["unattached"] -= 1
    else:
        job = state.jobs[worker["job"]]
        remove_idle(state, worker["job"], executor)
        job["local"] -= 1
        clock["idle_in_jobs"] -= 1


@inlined_kernel
def become_unattached(state: State, executor: int) -> None:
    clock = state.clock[0]
    worker = state.executors[executor]
    if worker["job"] != NONE:
        state.jobs[worker["job"]]["attached"] -= 1
    worker["state"] = IDLE
    worker["job"] = NONE
    worker["stage"] = NONE
    worker["last_stage"] = NONE
    append_idle(state, NONE, executor)
    state.classes[worker["kind"]]["idle"] += 1
    clock["unattached"] += 1


@inlined_kernel
def move(state: State, executor: int, stage: int) -> None:
    """Send `executor` to the job of `stage`, where its next task will be fresh."""
    clock = state.clock[0]
    worker = state.executors[executor]
    if worker["job"] != NONE:
        state.jobs[worker["job"]]["attached"] -= 1
    worker["state"] = MOVING
    worker["job"] = NONE
    worker["stage"] = stage
    worker["last_stage"] = NONE
    worker["since_ms"] = clock["time_ms"]
    push(state, executor, clock["time_ms"] + clock["moving_delay_ms"], EXECUTOR_ARRIVED)
