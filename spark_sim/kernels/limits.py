"""Free executors under a parallelism limit, where executors are of several classes.

An executor that finishes its last task for a job counts against the job's limit until it leaves,
since one of another class cannot take its place before.
"""

from __future__ import annotations

from spark_sim.compile import inlined_kernel
from spark_sim.kernels.opening import is_on_offer
from spark_sim.tables import State

HELD_BACK = 2
"""`released` of a stage whose last executors hold its job at a limit: if the job wants others, each
that leaves is an event. Only with several classes"""


@inlined_kernel
def room_under(state: State, job: int, limit: int) -> int:
    """Executors that may join those of `job` under the limit while its last tasks still run."""
    clock = state.clock[0]
    if len(state.classes) == 1:
        # Executors about to be free are given before any others.
        return int(clock["num_executors"])
    leaving = clock["releasing"] if clock["source_job"] == job else 0
    return int(max(0, limit - state.jobs[job]["held"] - leaving))


@inlined_kernel
def leaving(state: State, job: int, kind: int) -> int:
    """Executors of a class on offer that end their last tasks for `job`."""
    if state.clock[0]["source_job"] != job:
        return 0
    return int(state.classes[kind]["releasing"])


@inlined_kernel
def is_served(state: State, stage: int, limit: int, room: int, before: int) -> bool:
    """Return whether `stage` can get no more under the limit.

    `before` is what its job held when the stage was chosen.
    """
    job = state.jobs[state.stages[stage]["job"]]
    if job["held"] == limit:
        return True
    if room > 0:
        return False
    # It wants other executors than those that finish, so it is offered again when they leave.
    state.stages[state.clock[0]["source_stage"]]["released"] = HELD_BACK
    return bool(job["held"] == before or not is_one_leaving(state, stage))


@inlined_kernel
def is_one_leaving(state: State, stage: int) -> bool:
    """Return whether one of those could be given to `stage`."""
    for kind in range(len(state.classes)):
        if is_on_offer(state, stage, kind) and leaving(state, state.stages[stage]["job"], kind):
            return True
    return False
