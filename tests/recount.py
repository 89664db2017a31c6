"""Counting the simulator's running totals anew from the executors and promises themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from spark_sim.tables import IDLE, MOVING, NONE, RUNNING, WAITING, State, Table


def promises_of(state: State, owner: Table) -> Iterator[tuple[int, int, int]]:
    """(stage, class, executors) that the list of `owner` promises."""
    entry = int(owner["commit_head"])
    while entry != NONE:
        row = state.commits[entry]
        yield int(row["stage"]), int(row["kind"]), int(row["count"])
        entry = int(row["next"])


def check_executors_protocol(state: State) -> None:
    """Every count of the default protocol that a policy sees agrees with a recount."""
    clock = state.clock[0]
    where = _Executors(state)
    # With classes an executor that is promised to another job counts in its own, too, until it
    # leaves; without them from the decision on only where it goes.
    promised_to: Counter[int] = Counter()
    gone: Counter[int] = Counter()
    for index, stage in enumerate(state.stages):
        by_class: Counter[int] = Counter()
        for target, kind, count in promises_of(state, stage):
            promised_to[target] += count
            if len(state.classes) == 1 or state.stages[target]["job"] == stage["job"]:
                gone[index] += count
            by_class[kind] += count
            assert state.stages[target]["fits"] >> kind & 1, "promised to a stage too large"
        for kind, row in enumerate(state.running[index]):
            assert row == where.running_of[index, kind]
            assert by_class[kind] <= row, "promised beyond its own"
    active = set(state.active[: clock["num_active"]].tolist())
    chosen = set(state.chosen[: clock["num_chosen"]].tolist())
    assert clock["on_offer"] == where.unattached + where.idle_in_jobs.total() + clock["releasing"]
    _check_classes(state, where)
    for number, job in enumerate(state.jobs):
        rows = range(job["first_stage"], job["first_stage"] + job["num_stages"])
        for stage in rows:
            _check_stage(state, stage, where, promised_to[stage], number in active, chosen)
        if number not in active:
            continue
        releasing = clock["releasing"] if number == clock["source_job"] else 0
        held = sum(where.on_the_way_or_at[s] + promised_to[s] - gone[s] for s in rows)
        assert job["held"] == held - releasing
        assert job["local"] == where.idle_in_jobs[number] + releasing
        assert job["attached"] == where.attached[number]
        assert job["open_stages"] == sum(int(state.stages[s]["open"]) for s in rows)
        assert job["misfits"] == sum(int(state.stages[s]["misfit"]) for s in rows)
    assert clock["open_stages"] == sum(int(state.jobs[j]["open_stages"]) for j in active)


def _check_classes(state: State, where: _Executors) -> None:
    clock, classes = state.clock[0], state.classes
    assert classes["on_offer"].sum() == clock["on_offer"]
    assert classes["releasing"].sum() == clock["releasing"]
    assert classes["idle"].tolist() == [where.idle_of[kind] for kind in range(len(classes))]


class _Executors:
    """Executors by state and place; the two add up to N by construction of the loop."""

    def __init__(self, state: State) -> None:
        self.unattached = 0
        self.idle_in_jobs: Counter[int] = Counter()
        self.attached: Counter[int] = Counter()
        self.running: Counter[int] = Counter()
        self.running_of: Counter[tuple[int, int]] = Counter()
        """by stage and class"""
        self.idle_of: Counter[int] = Counter()
        """by class"""
        self.on_the_way_or_at: Counter[int] = Counter()
        """running, moving to or waiting for a stage"""
        self.early: Counter[int] = Counter()
        """moving to or waiting for a stage"""
        for row in state.executors:
            job, stage, doing = int(row["job"]), int(row["stage"]), int(row["state"])
            if job != NONE:
                self.attached[job] += 1
            if doing == IDLE:
                assert stage == NONE, "an idle executor has no stage"
                self.idle_of[int(row["kind"])] += 1
                self.unattached += job == NONE
                self.idle_in_jobs[job] += job != NONE
                continue
            assert stage != NONE
            self.on_the_way_or_at[stage] += 1
            self.running[stage] += doing == RUNNING
            self.running_of[stage, int(row["kind"])] += doing == RUNNING
            self.early[stage] += doing in (MOVING, WAITING)
            assert (job == NONE) == (doing == MOVING), "who moves is in no job"


def _check_stage(
    state: State, stage: int, where: _Executors, promised: int, is_active: bool, chosen: set[int]
) -> None:
    row = state.stages[stage]
    parents = _parents(state, stage)
    assert row["launched"] - row["finished"] == where.running[stage]
    assert 0 <= row["finished"] <= row["launched"] <= row["num_tasks"]
    covered = row["launched"] + where.early[stage] + promised
    if row["launched"] < row["num_tasks"]:
        assert row["covered"] == covered
    else:
        assert row["covered"] >= row["num_tasks"]
    complete = all(state.stages[p]["finished"] == state.stages[p]["num_tasks"] for p in parents)
    assert row["runnable"] == int(complete and (is_active or row["launched"] > 0))
    parents_want_none = all(
        state.stages[p]["covered"] >= state.stages[p]["num_tasks"] for p in parents
    )
    wants = row["covered"] < row["num_tasks"]
    is_wanting = is_active and wants and parents_want_none and stage not in chosen
    offered = [kind for kind, size in enumerate(state.classes) if size["on_offer"] > 0]
    fits = any(row["fits"] >> kind & 1 for kind in offered)
    assert row["open"] == int(is_wanting and fits), "nothing on offer can hold it"
    assert row["misfit"] == int(is_wanting and not fits)


def _parents(state: State, stage: int) -> list[int]:
    """Rows of the parents, from the children lists of the trace."""
    job = state.jobs[state.stages[stage]["job"]]
    first = int(job["first_stage"])
    parents = []
    for row in range(first, first + int(job["num_stages"])):
        template = int(state.stages[row]["template"])
        begin, end = state.trace.first_child[template], state.trace.first_child[template + 1]
        if stage - first in state.trace.children[begin:end]:
            parents.append(row)
    return parents


def check_session_protocol(state: State) -> None:
    """The same for the shared session, at a decision."""
    clock = state.clock[0]
    chosen = set(state.chosen[: clock["plan_length"]].tolist())
    running = Counter(int(row["stage"]) for row in state.executors if row["state"] == RUNNING)
    assert clock["unattached"] == np.count_nonzero(state.executors["state"] == IDLE)
    assert clock["unattached"] + running.total() == clock["num_executors"]
    taken = local = 0
    active = state.active[: clock["num_active"]]
    for number in active:
        job = state.jobs[number]
        rows = range(job["first_stage"], job["first_stage"] + job["num_stages"])
        assert job["attached"] == sum(running[stage] for stage in rows)
        local += int(job["local"])
        assert job["open_stages"] == sum(int(state.stages[stage]["open"]) for stage in rows)
        held = 0
        for stage in rows:
            row = state.stages[stage]
            ran_out = row["launched"] == row["num_tasks"]
            assert row["open"] == int(row["runnable"] and not ran_out and stage not in chosen)
            held += running[stage] if ran_out else 0
            held += int(row["covered"] - row["finished"]) if stage in chosen else 0
        assert job["held"] == held
        taken += held
    assert clock["on_offer"] == clock["num_executors"] - taken
    assert clock["local"] == local
    assert clock["open_stages"] == sum(int(job["open_stages"]) for job in state.jobs[active])
