"""Compiled: the columns of `decima.agent.columns`, in their order, of many decisions at once.

Plain loops over flat arrays, paid for by `benchmarks/policy_speed.py`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from decima.agent.class_kernels import describe_classes, scarcity_and_need
from decima.agent.column_arrays import Columns, Units
from decima.agent.scene import Scene
from decima.agent.sort_kernels import sort_descending
from decima.heuristics.es_classes import scarcity
from decima.heuristics.es_plan import Choosing, plan
from decima.heuristics.es_rule import surroundings
from decima.kernels import inlined_kernel, kernel
from spark_sim.observation import Observation
from spark_sim.tables import LEAST_WORK_MS, NONE
from traces.numbers import Float32, Int64


@inlined_kernel
def log2_column(ratio: float) -> float:
    return math.log2(min(max(ratio, 1.0 / 4096), 4096.0)) / 4


@inlined_kernel
def _log1p(value: float) -> float:
    """log(1 + value) as columns need it: the C library's `log1p` is exact for tiny values and takes
    four times as long, a third of `describe` where a thousand jobs wait.
    """
    return math.log(1.0 + value)


@inlined_kernel
def _squashed(value: float) -> float:
    return value / (1.0 + abs(value))


@inlined_kernel
def _rounded(count: float) -> float:
    """`count` to the nearest quarter power of two (of count + 1), so that it changes seldom."""
    if count <= 0:
        return 0.0
    return float(2.0 ** (round(4 * math.log2(1.0 + count)) / 4) - 1.0)


# --- nodes ---------------------------------------------------------------------------------------

KNOWN = 7
"""numbers that the features of a stage are computed from, kept to see whether one has changed"""


@kernel
def remember_nodes(
    scene: Scene,
    units: Units,
    known: NDArray[np.float64],
    memory_x: Float32,
    changed: Int64,
) -> int:
    """Write the features of all stages to the memory; list the jobs in which one has changed.

    Most stages are as they were, and comparing `known` with them costs a tenth of the logarithms.

    Returns how many have changed; the first entries of `changed` (J,) name them.
    """
    count = 0
    for decision in range(len(scene.time_ms)):
        executors = float(scene.num_executors[decision])
        for index in range(scene.job_ptr[decision], scene.job_ptr[decision + 1]):
            job = scene.jobs[scene.rows[index]]
            differs = False
            for local in range(job["num_stages"]):
                stage = scene.stages[job["first_stage"] + local]
                row = scene.memory_stage[index] + local
                numbers = (
                    float(stage["num_tasks"]),
                    float(stage["launched"]),
                    float(stage["covered"] - stage["finished"]),
                    float(stage["runnable"]),
                    float(stage["mean_ms"]),
                    scarcity(scene.classes[decision], stage, scene.num_executors[decision]),
                    executors,
                )
                if _noted(numbers, known[row]):
                    differs |= _describe_node(numbers, units, memory_x[row])
            if differs:
                changed[count] = index
                count += 1
    return count


@inlined_kernel
def _noted(
    numbers: tuple[float, float, float, float, float, float, float], known: NDArray[np.float64]
) -> bool:
    """Copy the numbers to `known`; whether one was another, or NaN."""
    differs = False
    for column in range(KNOWN):
        if known[column] != numbers[column]:
            known[column] = numbers[column]
            differs = True
    return differs


@inlined_kernel
def _describe_node(
    numbers: tuple[float, float, float, float, float, float, float], units: Units, row: Float32
) -> bool:
    """Write columns `NODE` from the numbers that `remember_nodes` notes; whether one changed."""
    num_tasks, launched, working, runnable, mean_ms, scarce, executors = numbers
    left = _rounded(num_tasks - launched)
    values = (
        np.float32(_log1p(4 * left / executors)),
        np.float32(log2_column(mean_ms / units.task_ms)),
        np.float32(working / executors),
        np.float32(_log1p(8 * left * mean_ms / units.work_ms)),
        np.float32(runnable),
        np.float32(scarce),
    )
    differs = False
    for column in range(len(values)):
        if row[column] != values[column]:
            row[column] = values[column]
            differs = True
    return differs


# --- the heads' columns --------------------------------------------------------------------------


@kernel
def describe(scene: Scene, units: Units, out: Columns) -> tuple[int, int, int]:
    """Fill `out`; returns the numbers of open stages, of limits and of classes for stages.

    Args:
        scene: B decisions with J jobs.
        units: of the columns.
        out: arrays to fill.
    """
    stages = limits = kinds = 0
    for decision in range(len(scene.time_ms)):
        first_job, last_job = scene.job_ptr[decision], scene.job_ptr[decision + 1]
        out.open_ptr[decision] = stages
        for index in range(first_job, last_job):
            out.first_open[index] = stages
            out.decision_of_job[index] = decision
            stages = _describe_stages(scene, decision, index, stages, units, out)
        if last_job > first_job:
            out.first_open[last_job] = stages
            _count_less(scene, first_job, last_job, out)
            _plan(scene, decision, units, stages, out)
            for row in range(out.open_ptr[decision], stages):
                kinds = describe_classes(
                    scene, decision, (row, out.open_stage[row], out.kind[row]), kinds, out.classes
                )
                for kind in range(out.classes.ptr[row], kinds):
                    out.rule.kind[kind] = -abs(out.classes.kind[kind] - out.kind[row])
        out.rule.end[decision] = -out.planned[decision]
        total_ms = _describe_cluster(scene, decision, units, out)
        for index in range(first_job, last_job):
            _describe_job(scene, decision, index, units, total_ms, out)
            out.limit_ptr[index] = limits
            limits = _describe_limits(scene, decision, index, limits, out)
        _compare_scores(scene, decision, out)
        _spread(out.cluster_x[decision], out, first_job, last_job, stages)
    out.open_ptr[len(scene.time_ms)] = stages
    out.limit_ptr[len(scene.rows)] = limits
    out.classes.ptr[stages] = kinds
    return stages, limits, kinds


@inlined_kernel
def _describe_stages(
    scene: Scene, decision: int, index: int, row: int, units: Units, out: Columns
) -> int:
    """Write columns `STAGE` of a job's open stages from `row` on, those of the rule excepted.

    Returns the row behind them.
    """
    job = scene.jobs[scene.rows[index]]
    executors = float(scene.num_executors[decision])
    offered = max(1.0, float(scene.on_offer[decision]))
    remaining_ms = max(job["remaining_ms"], 1e-6)
    wanted = 0
    if job["open_stages"] > 0 and job["held"] < scene.num_executors[decision]:
        for local in range(job["num_stages"]):
            number = job["first_stage"] + local
            stage = scene.stages[number]
            demand = stage["num_tasks"] - stage["covered"]
            if stage["open"] == 0 or demand <= 0:
                continue
            wanted += demand
            out.open_stage[row] = number
            out.open_job[row] = index
            stage_x = out.stage_x[row]
            stage_x[0] = _log1p(4 * demand / executors)
            stage_x[1] = min(1.0, demand / offered)
            stage_x[2] = stage["runnable"]
            stage_x[3] = log2_column(stage["mean_ms"] / units.task_ms)
            stage_x[4] = _log1p(stage["critical_path_ms"] / (4 * units.task_ms)) / 4
            stage_x[5] = min(1.0, demand * stage["mean_ms"] / remaining_ms)
            mean_ms = max(stage["mean_ms"], 1e-3)
            stage_x[6] = _log1p(scene.moving_delay_ms[decision] / mean_ms) / 4
            stage_x[9], stage_x[10] = scarcity_and_need(scene, decision, stage)
            row += 1
    out.job_x[index, 10] = _log1p(wanted / executors)
    return row


@inlined_kernel
def _count_less(scene: Scene, first: int, last: int, out: Columns) -> None:
    """Fill `less` of a decision's jobs; of two that have as much work left none has less."""
    height, order = out.scratch[0, first:last], out.candidate[0, first:last]
    for index in range(first, last):
        height[index - first] = -scene.jobs[scene.rows[index]]["remaining_ms"]
    sort_descending(height, order, out.candidate[1, first:last])
    count = 0
    for place in range(last - first):
        if place > 0 and height[order[place]] < height[order[place - 1]]:
            count = place
        out.less[first + order[place]] = count


@inlined_kernel
def _plan(scene: Scene, decision: int, units: Units, last_stage: int, out: Columns) -> None:
    """What the rule would choose, and the columns of stages and cluster that say so."""
    first, last = scene.job_ptr[decision], scene.job_ptr[decision + 1]
    active = scene.rows[first:last]
    around = surroundings(
        Observation(
            scene.time_ms[decision],
            scene.num_executors[decision],
            scene.on_offer[decision],
            scene.source[decision],
            scene.protocol[decision],
            scene.moving_delay_ms[decision],
            scene.last_arrival_ms[decision],
            scene.mean_gap_ms[decision],
            scene.typical_ms[decision],
            scene.inflation[decision],
            0,
            active,  # type: ignore[arg-type]  # wider numbers, which the kernel takes as well
            scene.classes[decision],
            scene.jobs,
            scene.stages,
        )
    )
    count = plan(
        Choosing(
            out.left[decision],
            scene.jobs,
            scene.stages,
            active,
            out.less[first:last],
            out.first_open[first : last + 1],
            out.open_stage,
            scene.on_offer[decision],
            scene.source[decision],
            out.scratch[0, first:last],
            out.scratch[1, first:last],
            out.scratch[2, first:last],
            out.candidate[0, first:last],
            out.candidate[1, first:last],
            out.taken[first:last],
            out.rank,
            out.kind,
        ),
        units.rule,
        around,
    )
    out.planned[decision] = count
    for row in range(out.open_ptr[decision], last_stage):
        rank = out.rank[row]
        out.stage_x[row, 7] = 0.0 if rank == NONE else 1.0
        out.stage_x[row, 8] = _log1p(count if rank == NONE else rank) / 4
        out.rule.stage[row] = -(count + 1) if rank == NONE else -rank


@inlined_kernel
def _describe_cluster(scene: Scene, decision: int, units: Units, out: Columns) -> float:
    """Write columns `CLUSTER`, the means over jobs excepted; returns the work not launched."""
    first, last = scene.job_ptr[decision], scene.job_ptr[decision + 1]
    executors = float(scene.num_executors[decision])
    total_ms = 0.0
    held = 0
    for index in range(first, last):
        job = scene.jobs[scene.rows[index]]
        total_ms += max(job["remaining_ms"], 0.0)
        held += job["held"]
    jobs = float(last - first)
    row = out.cluster_x[decision]
    row[0] = scene.on_offer[decision] / executors
    row[1] = log2_column(jobs / executors) + 0.5
    row[2] = log2_column(jobs)
    row[3] = log2_column(0.0625 + total_ms / units.work_ms)
    row[4] = held / executors
    row[5] = _log1p(out.planned[decision]) / 4
    row[6] = 1.0 if scene.protocol[decision] == 1 else 0.0
    row[7] = log2_column(executors / 50.0)
    row[8] = _log1p(scene.moving_delay_ms[decision] / units.task_ms) / 4
    quiet_ms = max(scene.time_ms[decision] - scene.last_arrival_ms[decision], 0.0)
    row[9] = _log1p(quiet_ms * executors / units.work_ms) / 4
    row[13] = scene.inflation[decision]
    return total_ms


@inlined_kernel
def _describe_job(
    scene: Scene, decision: int, index: int, units: Units, total_ms: float, out: Columns
) -> None:
    """Write columns `JOB`, but for "wanted" and "score"."""
    row = out.job_x[index]
    job = scene.jobs[scene.rows[index]]
    executors = float(scene.num_executors[decision])
    jobs = float(scene.job_ptr[decision + 1] - scene.job_ptr[decision])
    remaining_ms = max(job["remaining_ms"], 0.0)
    row[0] = job["held"] / executors
    row[1] = log2_column((job["held"] + 0.5) * jobs / executors)
    row[2] = 1.0 if job["held"] == 0 else 0.0
    row[3] = job["local"] / max(1.0, float(scene.on_offer[decision]))
    row[4] = 1.0 if scene.rows[index] == scene.source[decision] else 0.0
    row[5] = log2_column(remaining_ms / units.work_ms)
    row[6] = log2_column(remaining_ms * jobs / max(total_ms, 1e-6))
    row[7] = out.less[index] / max(1.0, jobs - 1.0)
    row[8] = remaining_ms / max(job["work_ms"], 1e-6)
    age_ms = max(scene.time_ms[decision] - job["arrival_ms"], 0.0)
    row[9] = _log1p(age_ms * executors / units.work_ms) / 4
    row[11] = _squashed(out.scratch[0, index])
    row[13] = out.taken[index] / executors
    row[14] = log2_column(remaining_ms / max(scene.typical_ms[decision], LEAST_WORK_MS))


@inlined_kernel
def _compare_scores(scene: Scene, decision: int, out: Columns) -> None:
    """Write the column "score" of the jobs with an open stage."""
    first, last = scene.job_ptr[decision], scene.job_ptr[decision + 1]
    best = -math.inf
    for index in range(first, last):
        if out.first_open[index + 1] > out.first_open[index]:
            best = max(best, out.scratch[1, index])
    for index in range(first, last):
        out.job_x[index, 12] = 0.0
        if out.first_open[index + 1] > out.first_open[index]:
            out.job_x[index, 12] = _squashed(out.scratch[1, index] - best)


@inlined_kernel
def _spread(row: Float32, out: Columns, first_job: int, last_job: int, last_stage: int) -> None:
    """Write the columns "age", "ages" and "durations" of a decision."""
    row[10] = _mean(out.job_x, 9, first_job, last_job)
    row[11] = _deviation(out.job_x, 9, first_job, last_job)
    first_stage = out.first_open[first_job] if last_job > first_job else last_stage
    row[12] = _deviation(out.stage_x, 3, first_stage, last_stage)


@inlined_kernel
def _mean(table: Float32, column: int, first: int, last: int) -> float:
    total = 0.0
    for index in range(first, last):
        total += table[index, column]
    return total / max(1.0, float(last - first))


@inlined_kernel
def _deviation(table: Float32, column: int, first: int, last: int) -> float:
    """Of the differences from the mean: those of squares would leave noise where all are equal."""
    mean = _mean(table, column, first, last)
    squares = 0.0
    for index in range(first, last):
        squares += (table[index, column] - mean) ** 2
    return math.sqrt(squares / max(1.0, float(last - first)))


# --- limits --------------------------------------------------------------------------------------


@inlined_kernel
def _describe_limits(scene: Scene, decision: int, index: int, row: int, out: Columns) -> int:
    """Write columns `LIMIT` of the limits that a job may be given; returns the row behind them.

    The executors added are 1, 2, 3, 4, 6, 8, 12, 16, ..., as many as the job can use, and what the
    rule would give: steps of half an octave, since 41 and 42 executors are all the same.
    """
    wanted = 0
    for entry in range(out.first_open[index], out.first_open[index + 1]):
        stage = scene.stages[out.open_stage[entry]]
        wanted += stage["num_tasks"] - stage["covered"]
    job = scene.jobs[scene.rows[index]]
    room = min(wanted, scene.on_offer[decision], scene.num_executors[decision] - job["held"])
    ruled = min(out.taken[index], room)
    added = 0
    while added < room:
        added = _next_added(added, ruled, room)
        limit = job["held"] + added
        size = float(scene.num_executors[decision])
        jobs = scene.job_ptr[decision + 1] - scene.job_ptr[decision]
        out.limit[row] = limit
        out.limit_job[row] = index
        limit_x = out.limit_x[row]
        limit_x[0] = limit / size
        limit_x[1] = log2_column(limit * jobs / size)
        limit_x[2] = added / size
        limit_x[3] = max(0.0, added - job["local"]) / added
        limit_x[4] = added / wanted
        limit_x[5] = 1.0 if added == ruled else 0.0
        limit_x[6] = log2_column(added / max(1, ruled))
        out.rule.limit[row] = -8 * abs(limit_x[6])
        row += 1
    return row


@inlined_kernel
def _next_added(added: int, ruled: int, room: int) -> int:
    """The next larger number of executors among those that a limit may add."""
    power = 1
    while 2 * power <= added:
        power *= 2
    if added < 2:
        following = added + 1
    elif added < power + power // 2:
        following = power + power // 2
    else:
        following = 2 * power
    following = min(following, room)
    if added < ruled < following:
        return ruled
    return following
