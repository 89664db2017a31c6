"""Features that decima-sim shows its policy, recomputed for each decision."""

from __future__ import annotations

from spark_sim.compile import kernel
from spark_sim.kernels.common import child_range
from spark_sim.tables import MOVING, NONE, State


@kernel
def refresh(state: State) -> None:
    """Recompute which stages may be chosen and what each job holds.

    A stage may be chosen if tasks of it are not covered, all its parents are covered, and it was
    not chosen in this round. Parking uncovers a stage again, so an event-wise update is impossible.
    """
    clock = state.clock[0]
    clock["open_stages"] = 0
    for index in range(clock["num_active"]):
        job = state.jobs[state.active[index]]
        job["open_stages"] = 0
        job["held"] = job["attached"]
        job["local"] = 0
        first = job["first_stage"]
        last = first + job["num_stages"]
        for stage in range(first, last):
            state.stages[stage]["open"] = 1
        for stage in range(first, last):
            row = state.stages[stage]
            if row["covered"] < row["num_tasks"]:
                begin, end, offset = child_range(state, stage)
                for child in range(begin, end):
                    state.stages[offset + state.trace.children[child]]["open"] = 0
            else:
                row["open"] = 0
    for index in range(clock["num_chosen"]):
        state.stages[state.chosen[index]]["open"] = 0
    for index in range(clock["num_active"]):
        job = state.jobs[state.active[index]]
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            job["open_stages"] += state.stages[stage]["open"]
        clock["open_stages"] += job["open_stages"]
    _count_held(state)


@kernel
def _count_held(state: State) -> None:
    """Add to `held` the executors that move to each job or are promised by others, without those on
    offer."""
    clock = state.clock[0]
    for executor in range(clock["num_executors"]):
        worker = state.executors[executor]
        if worker["state"] == MOVING:
            state.jobs[state.stages[worker["stage"]]["job"]]["held"] += 1
    _count_promised(state, clock["commit_head"], NONE)
    for index in range(clock["num_active"]):
        number = state.active[index]
        job = state.jobs[number]
        _count_promised(state, job["commit_head"], number)
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            _count_promised(state, state.stages[stage]["commit_head"], number)
    if clock["source_job"] != NONE:
        state.jobs[clock["source_job"]]["held"] -= clock["on_offer"]
        state.jobs[clock["source_job"]]["local"] = clock["on_offer"]


@kernel
def _count_promised(state: State, entry: int, owner: int) -> None:
    while entry != NONE:
        commit = state.commits[entry]
        if commit["count"] > 0 and commit["stage"] != NONE:
            job = state.stages[commit["stage"]]["job"]
            if job != owner:
                state.jobs[job]["held"] += commit["count"]
        entry = commit["next"]
