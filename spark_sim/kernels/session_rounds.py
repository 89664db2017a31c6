"""Rounds of a session: what is on offer, choices, and the part of the last plan that is reused.

For a policy whose limits are known (`PLAN`), a round that follows one with slots left over asks
only about jobs that changed since. All others would be given what they have: their parts of the
plan stay.
"""

from __future__ import annotations

import math

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels.common import mark_changed
from spark_sim.kernels.session_plan import find_critical, follow_plan
from spark_sim.tables import ANY_LIMIT, DECIDE, DONE, FAIR_LIMIT, ILLEGAL, NONE, State


@kernel
def ask(state: State) -> bool:
    """Open a round, of few jobs if possible. Returns whether there is a decision to make."""
    clock = state.clock[0]
    plan = state.plan[0]
    is_kept = plan["is_kept"] == 1 and plan["num_executors"] == clock["num_executors"]
    if not is_kept or plan["limits"] == ANY_LIMIT:
        return open_round(state)

    # Find the jobs that changed, and the slots that are left for them.
    limit = _known_limit(state)
    asked = 0
    for index in range(clock["num_active"]):
        number = state.active[index]
        job = state.jobs[number]
        if job["changed"] == 0 and limit != plan["limit"]:
            # Another limit changes a job if that or the old one binds.
            held = job["held"] + job["plan_slots"]
            is_bound = held >= plan["limit"] or held > limit
            if job["open_stages"] > job["plan_stages"] or is_bound:
                mark_changed(state, number)
            elif job["plan_stages"] > 0:
                job["limit"] = limit
        if job["changed"] == 1:
            state.asked[asked] = number
            asked += 1
    plan["num_asked"] = asked
    clock["on_offer"] = clock["num_executors"] - clock["ending"] - plan["slots"]
    has_place = clock["plan_length"] + clock["open_stages"] - plan["stages"] <= len(state.chosen)
    is_possible = clock["on_offer"] > 0 and clock["open_stages"] > 0 and has_place
    if asked == clock["num_active"] or not is_possible:
        return open_round(state)

    # Ask about them alone.
    for index in range(asked):
        number = state.asked[index]
        stage = int(state.jobs[number]["plan_head"])
        while stage != NONE:
            state.stages[stage]["covered"] = state.stages[stage]["finished"]
            stage = int(state.stages[stage]["plan_next"])
        _forget_plan(state, number)
        state.jobs[number]["changed"] = 0
    plan["changed_only"] = 1
    plan["decisions"] = clock["decisions"]
    plan["begin"] = clock["plan_length"]
    clock["plan_place"] = clock["plan_length"]
    clock["plan_stale"] = 0
    clock["open_stages"] -= plan["stages"]
    clock["rounds"] += 1
    return bool(clock["open_stages"] > 0 or close_round(state) == DECIDE)


@kernel
def open_round(state: State) -> bool:
    """Put every slot on offer that will come back. Returns whether there is a decision to make."""
    clock = state.clock[0]
    plan = state.plan[0]
    for index in range(clock["plan_length"]):
        row = state.stages[state.chosen[index]]
        ran_out = row["launched"] == row["num_tasks"]
        row["covered"] = row["num_tasks"] if ran_out else row["finished"]
        _forget_plan(state, row["job"])
    plan["is_kept"] = 0
    plan["slots"] = 0
    plan["stages"] = 0
    plan["begin"] = 0
    clock["plan_length"] = 0
    clock["plan_place"] = 0
    clock["plan_stale"] = 0
    if clock["counted"] == 0:
        _count(state)
    clock["on_offer"] = clock["num_executors"] - clock["ending"]
    clock["plan_spare"] = clock["on_offer"] > 0 and _may_ask_less(state)
    due = bool(clock["on_offer"] > 0 and clock["open_stages"] > 0)
    clock["rounds"] += due
    return due


@inlined_kernel
def _may_ask_less(state: State) -> bool:
    """Return whether slots that stay idle show that all jobs are at their limits."""
    clock = state.clock[0]
    return bool(clock["ask_while_idle"] == 0 and clock["slots_each"] == 0)


@inlined_kernel
def _forget_plan(state: State, number: int) -> None:
    """The job has no part in the plan any more."""
    job = state.jobs[number]
    job["limit"] = 0
    job["plan_head"] = NONE
    job["plan_slots"] = 0
    job["plan_stages"] = 0


@kernel
def _count(state: State) -> None:
    """Count what a round shows of each job; between rounds `start` and `happen` count on.

    Tasks that run are not covered, as their slots are on offer too, but for a stage that has no
    further one.
    """
    clock = state.clock[0]
    clock["counted"] = 1
    clock["ending"] = 0
    clock["local"] = 0
    clock["open_stages"] = 0
    for index in range(clock["num_active"]):
        job = state.jobs[state.active[index]]
        job["held"] = 0
        job["local"] = 0
        job["uncovered"] = 0
        job["open_stages"] = 0
        for stage in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            row = state.stages[stage]
            running = (row["launched"] - row["finished"]) * row["slots"]
            row["covered"] = row["finished"]
            row["open"] = 0
            if row["launched"] == row["num_tasks"]:
                row["covered"] = row["num_tasks"]
                job["held"] += running
            elif row["runnable"] == 1:
                row["open"] = 1
                job["open_stages"] += 1
                job["local"] += running
                job["uncovered"] += row["num_tasks"] - row["finished"]
        find_critical(state, state.active[index])
        clock["ending"] += job["held"]
        clock["local"] += job["local"]
        clock["open_stages"] += job["open_stages"]


@inlined_kernel
def _known_limit(state: State) -> int:
    """Return the limit that the policy gives while slots are left over, if it is a known one."""
    clock = state.clock[0]
    if state.plan[0]["limits"] == FAIR_LIMIT:
        share: int = math.ceil(clock["num_executors"] / max(1, clock["num_active"]))
        return share
    return int(clock["num_executors"])


@inlined_kernel
def assign(state: State, stage: int, limit: int) -> int:
    """Put `stage` next in the plan and set its job's limit; stage NONE ends the round.

    Returns DECIDE while the round is open, DONE once it is closed, ILLEGAL for an action that the
    rules forbid (nothing has changed then).
    """
    clock = state.clock[0]
    if stage == NONE:
        clock["decisions"] += 1
        return close_round(state)
    if stage < 0 or stage >= len(state.stages) or state.stages[stage]["open"] == 0:
        return ILLEGAL
    row = state.stages[stage]
    job = state.jobs[row["job"]]
    if limit <= job["held"] or limit > clock["num_executors"]:
        return ILLEGAL
    clock["decisions"] += 1
    job["limit"] = limit
    job["uncovered"] -= row["num_tasks"] - row["covered"]
    if row["slots"] > 1 or row["barrier"] == 1:
        # Tasks of several slots are covered up to the new limit. Policies count a task as a slot: a
        # limit that would cover all tasks so covers all. The slots stay on offer, and are not held:
        # a task that finds no room is passed over, and reserves none.
        waiting = int(row["num_tasks"] - row["covered"])
        room = int(limit - job["held"])
        is_whole = row["barrier"] == 1 or room >= waiting
        tasks = waiting if is_whole else max(1, room // row["slots"])
        row["covered"] += tasks
        most = min(clock["num_executors"], job["held"] + tasks * row["slots"])
        job["limit"] = max(limit, most)
    else:
        count = min(row["num_tasks"] - row["covered"], limit - job["held"], clock["on_offer"])
        clock["on_offer"] -= count
        job["held"] += count
        local = min(count, job["local"])
        job["local"] -= local
        clock["local"] -= local
        row["covered"] += count
    row["open"] = 0
    job["open_stages"] -= 1
    clock["open_stages"] -= 1

    # It goes to the end of the plan, and of its job's part of it.
    row["plan_place"] = clock["plan_length"]
    row["plan_next"] = NONE
    if job["plan_head"] == NONE:
        job["plan_head"] = stage
    else:
        state.stages[job["plan_tail"]]["plan_next"] = stage
    job["plan_tail"] = stage
    state.chosen[clock["plan_length"]] = stage
    clock["plan_length"] += 1
    if clock["on_offer"] > 0 and clock["open_stages"] > 0:
        return DECIDE
    return close_round(state)


@kernel
def close_round(state: State) -> int:
    """Start what the plan allows now. Returns DONE, or DECIDE if all jobs are due."""
    clock = state.clock[0]
    plan = state.plan[0]
    is_left_over = bool(clock["on_offer"] > 0)
    if plan["changed_only"] == 1:
        plan["changed_only"] = 0
        clock["open_stages"] += plan["stages"]
        room = 0
        for index in range(plan["num_asked"]):
            job = state.jobs[state.asked[index]]
            room += max(0, job["held"] - job["attached"])
        if not is_left_over or room >= clock["unattached"]:
            # No slot stays idle, so the order of the whole plan decides: ask about all jobs.
            _take_back(state)
            clock["decisions"] = plan["decisions"]
            clock["rounds"] -= 1
            open_round(state)
            return DECIDE
        # What the others would be given again.
        clock["decisions"] += plan["stages"]
    clock["plan_spare"] = is_left_over and _may_ask_less(state)
    clock["on_offer"] = 0
    is_counted = clock["counted"] == 1
    if is_counted and clock["slots_each"] == 0:
        _take_back(state)
    elif clock["counted"] != 2:
        _count(state)
    follow_plan(state, NONE)
    # The policy knew the slots that the plan used just now.
    clock["plan_stale"] = 0
    plan["num_executors"] = clock["num_executors"]
    plan["limit"] = _known_limit(state)
    is_fixed = state.allocation[0]["slots_each"] == 0 and clock["slots_each"] == 0
    plan["is_kept"] = is_counted and is_fixed and is_left_over and clock["unattached"] > 0
    return DONE


@inlined_kernel
def _take_back(state: State) -> None:
    """Undo what the round's choices changed in the counts: they are a plan so far."""
    clock = state.clock[0]
    plan = state.plan[0]
    for index in range(plan["begin"], clock["plan_length"]):
        row = state.stages[state.chosen[index]]
        job = state.jobs[row["job"]]
        count = row["covered"] - row["finished"]
        plan["slots"] += count
        plan["stages"] += 1
        job["plan_slots"] += count
        job["plan_stages"] += 1
        job["changed"] = 0
        job["held"] -= count
        job["uncovered"] += row["num_tasks"] - row["finished"]
        row["open"] = 1
        job["open_stages"] += 1
        clock["open_stages"] += 1
        local = job["attached"] - job["held"]
        clock["local"] += local - job["local"]
        job["local"] = local
