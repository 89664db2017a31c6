"""Building the tables of one simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spark_sim.cluster import Cluster, ExecutorClass, Protocol
from spark_sim.conditions import Conditions
from spark_sim.errors import SimulationError
from spark_sim.needs import classes_of, first_misfit, fitting_classes
from spark_sim.tables import (
    ALLOCATION,
    CAP,
    CLASS,
    CLOCK,
    COMMIT,
    EVENT,
    EXECUTOR,
    IDLE,
    IDLE_LIST,
    JOB,
    LEAST_WORK_MS,
    NONE,
    PLAN,
    STAGE,
    TASK,
    TIMER,
    State,
    Table,
)
from traces.arrays import REST, TraceArrays
from traces.numbers import Float64, Int32


def check_arrivals(arrival_ms: Float64, job: Int32, num_templates: int) -> None:
    """Check the arrivals, as the event loop relies on them.

    Args:
        arrival_ms: (K,) submission times.
        job: (K,) row of the trace of each.
        num_templates: jobs of the trace.

    Raises:
        SimulationError: lengths differ, nothing arrives, times decrease, are negative or not
            finite, or a job is not in the trace.
    """
    if len(arrival_ms) != len(job):
        raise SimulationError(f"{len(arrival_ms)} arrival times for {len(job)} jobs")
    if len(arrival_ms) == 0:
        raise SimulationError("no job arrives; a simulation needs at least one")
    bad = np.flatnonzero(~np.isfinite(arrival_ms) | (arrival_ms < 0))
    if len(bad):
        raise SimulationError(
            f"arrival {bad[0]} at {arrival_ms[bad[0]]} ms; times must be finite and >= 0"
        )
    early = np.flatnonzero(np.diff(arrival_ms) < 0)
    if len(early):
        raise SimulationError(
            f"arrival {early[0] + 1} at {arrival_ms[early[0] + 1]} ms comes before its "
            f"predecessor at {arrival_ms[early[0]]} ms; times must not decrease"
        )
    outside = np.flatnonzero((job < 0) | (job >= num_templates))
    if len(outside):
        raise SimulationError(
            f"arrival {outside[0]} names job {job[outside[0]]}; the trace has jobs "
            f"0..{num_templates - 1}"
        )


def build_state(
    trace: TraceArrays,
    cluster: Cluster,
    arrival_ms: Float64,
    job: Int32,
    duration_key: int,
    *,
    timeline: bool,
    conditions: Conditions | None = None,
) -> State:
    """Tables at time zero, before the first event."""
    check_arrivals(arrival_ms, job, trace.num_jobs)
    if conditions is None:
        conditions = Conditions()
    else:
        conditions.check(len(trace.num_tasks), len(job), cluster)
    misfit = first_misfit(trace, cluster, conditions)
    if misfit is not None:
        raise SimulationError(f"job {misfit.job} of the trace, stage {misfit.stage}: {misfit.why}")
    conditions.check_caps(trace, job)
    sizes = np.diff(trace.first_stage)[job]
    first_stage = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
    # Row of the trace for every stage: each job's run of rows, shifted to where it starts here.
    template = np.repeat(trace.first_stage[job] - first_stage, sizes) + np.arange(sizes.sum())
    stages = _stage_table(trace, template, np.repeat(np.arange(len(job)), sizes))
    stages["fits"] = fitting_classes(trace, cluster)[template]
    stages["least_class"] = np.log2(stages["fits"] & -stages["fits"])
    tasks = int(stages["num_tasks"].sum(dtype=np.int64)) if timeline else 0
    classes = classes_of(cluster)
    count = cluster.num_executors
    executors, idle = _idle_executors([kind.count for kind in classes], len(job))
    leaves = 1 << (count - 1).bit_length()
    events = np.zeros(2 * leaves, EVENT)
    events["time_ms"] = np.inf
    # Leaves beyond the executors never win, but a tie of empty leaves reads their number.
    events["executor"][leaves : leaves + count] = np.arange(count)
    commits = np.zeros(2 * count + 2, COMMIT)
    commits["next"] = np.append(np.arange(1, len(commits)), NONE)
    if not all(column.flags.c_contiguous and column.flags.writeable for column in trace):
        # Kernels take writable columns.
        trace = TraceArrays._make(np.require(column, requirements=["C", "W"]) for column in trace)
    state = State(
        clock=_clock(cluster, len(job), duration_key, inflation_of(trace, count)),
        jobs=_job_table(arrival_ms, job, first_stage, sizes, stages),
        stages=stages,
        executors=executors,
        classes=_class_table(classes, stages),
        running=np.zeros((len(stages), len(classes)), np.int32),
        idle=idle,
        events=events,
        commits=commits,
        active=np.zeros(len(job), np.int32),
        chosen=np.zeros(len(stages), np.int32),
        queue=np.arange(len(job), dtype=np.int32),
        asked=np.zeros(len(job), np.int32),
        plan=np.zeros(1, PLAN),
        timers=np.zeros(conditions.timer_rows(template), TIMER),
        allocation=np.zeros(1, ALLOCATION),
        caps=np.zeros(len(conditions.cap_slots), CAP),
        timeline=np.zeros(tasks, TASK),
        trace=trace,
    )
    conditions.apply(state, template)
    clock = state.clock[0]
    clock["num_admissible"] = min(clock["num_queued"], clock["max_jobs"])
    return state


def copied(state: State) -> State:
    """Copy the tables; the trace is shared."""
    return State._make([*(table.copy() for table in state[:-1]), state.trace])


def inflation_of(trace: TraceArrays, executors: int) -> float:
    """Log of how much longer a task takes in a job that holds so many executors than at the
    lowest recorded level: mean over the trace's tasks (work inflation, Decima 3).
    """
    if len(trace.level_executors) == len(trace.num_tasks):  # as in most traces, and quicker
        return 0.0
    lowest, end = trace.first_level[:-1], trace.first_level[1:]
    # Levels ascend in each stage, and between two the expected duration is linear.
    known = np.concatenate([[0], np.cumsum(trace.level_executors <= executors)])
    below = np.maximum(lowest, lowest + (known[end] - known[lowest]) - 1)
    above = np.minimum(below + 1, end - 1)
    level = trace.level_executors.astype(np.float64)
    span = np.maximum(level[above] - level[below], 1.0)
    part = np.clip((executors - level[below]) / span, 0.0, 1.0)
    rest_ms = np.maximum(trace.wave_mean_ms[:, REST], LEAST_WORK_MS)
    there_ms = (1 - part) * rest_ms[below] + part * rest_ms[above]
    return float(np.average(np.log(there_ms / rest_ms[lowest]), weights=trace.num_tasks))


def typical_work_ms(work_ms: Float64) -> float:
    """Geometric mean of the work of jobs."""
    return float(np.exp(np.log(np.maximum(work_ms, LEAST_WORK_MS)).mean()))


def _clock(cluster: Cluster, num_jobs: int, duration_key: int, inflation: float) -> Table:
    clock = np.zeros(1, CLOCK)
    clock["time_limit_ms"] = np.inf if cluster.time_limit_ms is None else cluster.time_limit_ms
    moves = cluster.protocol is not Protocol.SESSION
    clock["moving_delay_ms"] = cluster.moving_delay_ms if moves else 0.0
    clock["warmup_delay_ms"] = cluster.warmup_delay_ms
    clock["duration_key"] = np.uint64(duration_key)
    clock["protocol"] = int(cluster.protocol)
    clock["ask_while_idle"] = cluster.ask_while_idle
    clock["num_executors"] = cluster.num_executors
    clock["num_jobs"] = clock["num_queued"] = num_jobs
    clock["max_jobs"] = num_jobs if cluster.max_jobs is None else min(cluster.max_jobs, num_jobs)
    clock["ask_admission"] = cluster.ask_admission
    clock["inflation"] = inflation
    clock["offered"] = (1 << len(classes_of(cluster))) - 1
    clock["unattached"] = clock["present"] = cluster.num_executors
    rows = ("source_job", "source_stage", "commit_head", "commit_tail")
    for label in (*rows, "dispatching", "taken", "absent_head"):
        clock[label] = NONE
    return clock


def _job_table(
    arrival_ms: Float64, template: Int32, first_stage: Int32, sizes: Int32, stages: Table
) -> Table:
    jobs = np.zeros(len(template), JOB)
    jobs["arrival_ms"] = arrival_ms
    jobs["completion_ms"] = np.nan
    jobs["first_stage"] = first_stage
    jobs["num_stages"] = sizes
    jobs["template"] = template
    work_ms = stages["num_tasks"] * stages["mean_ms"] * stages["slots"]
    jobs["work_ms"] = np.add.reduceat(work_ms, first_stage)
    jobs["remaining_ms"] = jobs["work_ms"]
    rows = ("commit_head", "commit_tail", "first_follower", "next_follower")
    for label in (*rows, "plan_head", "plan_tail", "critical", "cap"):
        jobs[label] = NONE
    return jobs


def _stage_table(trace: TraceArrays, template: NDArray[np.int64], job: NDArray[np.int64]) -> Table:
    stages = np.zeros(len(template), STAGE)
    stages["job"] = job
    stages["template"] = template
    stages["num_tasks"] = trace.num_tasks[template]
    stages["mean_ms"] = trace.mean_ms[template]
    stages["critical_path_ms"] = trace.critical_path_ms[template]
    stages["memory_mb"] = trace.memory_mb[template]
    stages["cpu"] = trace.cpu[template]
    stages["slots"] = trace.slots[template]
    stages["barrier"] = trace.barrier[template]
    stages["parents_running"] = trace.num_parents[template]
    stages["parents_uncovered"] = trace.num_parents[template]
    for label in ("level_of", "wait_head", "wait_tail", "commit_head", "commit_tail"):
        stages[label] = NONE
    return stages


def _class_table(classes: Sequence[ExecutorClass], stages: Table) -> Table:
    table = np.zeros(len(classes), CLASS)
    for label in ("memory_mb", "cpu", "count"):
        table[label] = [getattr(kind, label) for kind in classes]
    table["idle"] = table["count"]
    table["want_head"] = NONE
    table["common"] = (1 << len(classes)) - 1
    np.bitwise_and.at(table["common"], stages["least_class"], stages["fits"])
    return table


def _idle_executors(sizes: list[int], num_jobs: int) -> tuple[Table, Table]:
    """Executors and the lists of idle ones: all are in no job, by number."""
    ends = np.cumsum(sizes)
    starts = ends - sizes
    executors = np.zeros(ends[-1], EXECUTOR)
    executors["state"] = IDLE
    executors["kind"] = np.repeat(np.arange(len(sizes)), sizes)
    executors["next"] = np.arange(1, ends[-1] + 1)
    executors["prev"] = np.arange(-1, ends[-1] - 1)
    executors["next"][ends - 1] = NONE
    executors["prev"][starts] = NONE
    for label in ("job", "stage", "last_stage", "task"):
        executors[label] = NONE
    idle = np.full((num_jobs + 1, len(sizes)), NONE, IDLE_LIST)
    idle["head"][0] = starts
    idle["tail"][0] = ends - 1
    return executors, idle
