"""The applications of a cluster in the simulator's tables, as in its `executors` protocol.

An application is a job. Its executors are of three kinds: *busy* ones run a stage that has more
tasks to start, *starting* ones are granted and not registered, the others are *idle*: on offer.
Executors that run the last tasks of their stages count as idle, as an executor that leaves finishes
its tasks first. So do those of a stage that would keep them for too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from decima.spark.coordinator.applications import Application, Arrivals
from decima.spark.coordinator.messages import Stages
from decima.spark.tables import refill
from spark_sim.cluster import Cluster, Protocol
from spark_sim.setup import build_state
from spark_sim.tables import IDLE, MOVING, NONE, RUNNING, State
from traces.arrays import TraceArrays
from traces.numbers import Float64

_INFLATION_AN_EXECUTOR, _MOST_INFLATION = 0.01, 0.94
"""as in `LiveTables.java`"""


class Share(NamedTuple):
    """The executors that are granted to an application."""

    busy: int
    starting: int
    idle: int
    ahead: int = 0
    """busy and starting ones whose next task is not launched yet"""

    @property
    def total(self) -> int:
        """Number of all of them."""
        return self.busy + self.starting + self.idle


def share_of(application: Application, longest_ms: float) -> Share:
    """How an application's executors are used; a stage beyond `longest_ms` offers its own."""
    if application.stages is None:
        return Share(0, 0, application.granted)
    stages = application.stages
    running_tasks = stages.launched - stages.finished
    tasks_left = stages.num_tasks - stages.launched
    left_ms = tasks_left * stages.mean_ms / np.maximum(1, running_tasks)
    goes_on = (stages.launched > 0) & (tasks_left > 0) & (left_ms <= longest_ms)
    running = int(running_tasks[goes_on].sum())
    next_tasks = int(tasks_left[goes_on].sum())
    present = min(application.granted, application.registered)
    busy = min(present, application.executors_for(running + next_tasks))
    # What it has no task for need not come.
    starting = min(
        application.granted - present, application.executors_for(application.waiting_tasks)
    )
    between = max(0, busy - application.executors_for(running))
    return Share(busy, starting, application.granted - busy - starting, between + starting)


def message_of(
    applications: Sequence[Application], now_ms: float, slots: int, arrivals: Arrivals
) -> dict[str, Any]:
    """Pool what J applications with work reported, each as a job, in columns of `RoundMessage`.

    The applications come by arrival. Durations are divided by the weight of the application, so
    that a policy that prefers short work minimises the weighted average JCT (Smith's rule).
    """
    pooled = [_counted_in_executors(application) for application in applications]
    weight = [application.weight for application in applications]
    origin_ms = min(application.arrival_ms for application in applications)
    first_stage = np.cumsum([0, *(len(stages.num_tasks) for stages in pooled)])
    num_edges = np.cumsum([0, *(len(stages.children) for stages in pooled)])
    num_tasks, launched, finished, runnable = (
        np.concatenate([getattr(stages, label) for stages in pooled])
        for label in ("num_tasks", "launched", "finished", "runnable")
    )
    weighted = list(zip(pooled, weight, strict=True))
    mean_ms = np.concatenate([np.maximum(stages.mean_ms, 1.0) / w for stages, w in weighted])
    all_ms, left_ms = num_tasks * mean_ms, (num_tasks - launched) * mean_ms
    return {
        "slots": slots,
        "time_ms": now_ms - origin_ms,
        "last_arrival_ms": max(0.0, arrivals.last_ms - origin_ms),
        "mean_gap_ms": arrivals.mean_gap_ms,
        "typical_ms": arrivals.typical_ms([stages.work_ms / w for stages, w in weighted]),
        "inflation": min(_INFLATION_AN_EXECUTOR * slots, _MOST_INFLATION),
        "arrival_ms": [application.arrival_ms - origin_ms for application in applications],
        "work_ms": np.add.reduceat(all_ms, first_stage[:-1]),
        "remaining_ms": np.add.reduceat(left_ms, first_stage[:-1]),
        "first_stage": first_stage,
        "first_child": np.concatenate(
            [[0], *(s.first_child[1:] + edge for s, edge in zip(pooled, num_edges, strict=False))]
        ),
        "children": np.concatenate(
            [s.children + first for s, first in zip(pooled, first_stage, strict=False)]
        ),
        "num_tasks": num_tasks,
        "launched": launched,
        "finished": finished,
        "runnable": runnable,
        "mean_ms": mean_ms,
        "critical_path_ms": np.concatenate([s.critical_path_ms / w for s, w in weighted]),
    }


def _counted_in_executors(application: Application) -> Stages:
    """The stages with a task for as many tasks as an executor runs at once."""
    stages, size = application.stages, application.registration.tasks
    if stages is None:
        raise ValueError(f"{application.registration.key}: no work")
    if size == 1:
        return stages
    num_tasks = -(-stages.num_tasks // size)
    is_launched = stages.launched == stages.num_tasks
    launched = np.where(is_launched, num_tasks, np.minimum(stages.launched // size, num_tasks - 1))
    is_over = stages.finished == stages.num_tasks
    finished = np.where(is_over, num_tasks, np.minimum(stages.finished // size, num_tasks - 1))
    return stages._replace(
        num_tasks=num_tasks, launched=launched, finished=np.minimum(finished, launched)
    )


def state_of(
    trace: TraceArrays,
    message: dict[str, Any],
    shares: Sequence[Share],
    reserved: int,
    moving_delay_ms: float,
) -> State:
    """Build the state of the cluster with a round open.

    `trace` has the graphs of `message` (`graph_arrays`), `shares` (J,) the executors of each; of
    the others, `reserved` are not on offer.
    """
    arrival_ms: Float64 = np.array(message["arrival_ms"])
    cluster = Cluster(
        num_executors=message["slots"],
        moving_delay_ms=moving_delay_ms,
        protocol=Protocol.EXECUTORS,
    )
    jobs = np.arange(len(shares), dtype=np.int32)
    state = build_state(trace, cluster, arrival_ms, jobs, 0, timeline=False)
    refill(state, message)
    state.jobs["active"] = 1
    state.active[:] = jobs
    clock = state.clock[0]
    clock["num_active"] = clock["next_arrival"] = len(jobs)
    place = 0
    for job, share in enumerate(shares):
        row = state.jobs[job]
        row["held"] = share.busy + share.starting
        row["attached"] = share.busy + share.idle
        row["local"] = share.idle
        for kind, count in ((RUNNING, share.busy), (MOVING, share.starting), (IDLE, share.idle)):
            rows = state.executors[place : place + count]
            rows["state"] = kind
            rows["job"] = NONE if kind == MOVING else job
            rows["next"] = rows["prev"] = NONE
            place += count
        _link(state, job, place - share.idle, place)
        clock["idle_in_jobs"] += share.idle
    end = len(state.executors) - reserved
    state.executors["state"][end:] = RUNNING
    clock["unattached"] = end - place
    _link(state, NONE, place, end)
    # Cover tasks by the executors that will run them, and open the stages that want others.
    # Tasks of stages that have begun come first, then those that may run, then others.
    stages, of_jobs = state.stages, state.jobs
    stages["covered"] = stages["launched"]
    for job_row, share in zip(of_jobs, shares, strict=True):
        first, ahead = job_row["first_stage"], share.ahead
        own_stages = stages[first : first + job_row["num_stages"]]
        rank = np.where(own_stages["launched"] > 0, 2, own_stages["runnable"])
        for row in np.argsort(-rank, kind="stable"):
            count = min(ahead, int(own_stages[row]["num_tasks"] - own_stages[row]["covered"]))
            own_stages[row]["covered"] += count
            ahead -= count
    parent = np.repeat(np.arange(len(stages)), np.diff(trace.first_child))
    child = trace.children + of_jobs["first_stage"][stages["job"][parent]]
    is_wanting = stages["covered"] < stages["num_tasks"]
    is_complete = stages["finished"] == stages["num_tasks"]
    for label, counted in (("parents_uncovered", is_wanting), ("parents_running", ~is_complete)):
        stages[label] = np.bincount(child[counted[parent]], minlength=len(stages))
    stages["open"] = is_wanting & (stages["parents_uncovered"] == 0)
    first_stage = of_jobs["first_stage"]
    of_jobs["open_stages"] = np.add.reduceat(stages["open"].astype(np.int32), first_stage)
    state.clock["open_stages"] = stages["open"].sum()
    clock["rounds"] = 1
    clock["on_offer"] = clock["unattached"] + clock["idle_in_jobs"]
    state.classes["idle"] = state.classes["on_offer"] = clock["on_offer"]
    return state


def _link(state: State, job: int, first: int, end: int) -> None:
    """Make the executors from `first` to `end` the idle list of `job`, or of NONE."""
    executors = state.executors
    state.idle[job + 1, 0] = (first, end - 1) if end > first else (NONE, NONE)
    if end > first:
        executors["next"][first:end] = np.append(np.arange(first + 1, end), NONE)
        executors["prev"][first:end] = np.append(NONE, np.arange(first, end - 1))
