"""Compiled: the columns of `decima.agent.columns`, in their order, of many decisions at once.

Plain loops over flat arrays, for the speed that `benchmarks/policy_speed.py` measures.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from decima.agent import columns
from decima.agent.columns import Choices
from decima.agent.kernels import inlined_kernel, kernel
from decima.agent.scales import Scales
from decima.agent.sort_kernels import sort_descending
from decima.heuristics.es_rule import wait_ms
from decima.heuristics.stages import (
    is_more_critical,
    is_on_offer,
    scarcity,
)
from spark_sim.observation import ObservationBatch
from spark_sim.tables import DECIMA_SIM, LEAST_WORK_MS, SESSION
from traces.numbers import Float32, Float64, Int64

_FIRST_LEADING = columns.JOB.index(f"leading {columns.LEADING[0]}")
_LEADING = tuple(columns.STAGE.index(name) for name in columns.LEADING)
"""the columns of a stage that its job's columns repeat, from `_FIRST_LEADING` on"""


LONGEST = 1.0
"""bound of "age" and "quiet", which would otherwise grow as long as one giant job runs, far beyond
all that a training of a few dozen jobs shows"""


@inlined_kernel
def log2_column(ratio: float) -> float:
    return math.log2(min(max(ratio, 1.0 / 4096), 4096.0)) / 4


@inlined_kernel
def _log1p(value: float) -> float:
    """log(1 + value) at a quarter of the cost of the C library's `log1p`, which is also exact for
    tiny values but takes a third of `describe` where a thousand jobs wait.
    """
    return math.log(1.0 + value)


# --- nodes ---------------------------------------------------------------------------------------

KNOWN = 7  # inputs of the features of a stage, stored to detect changes


@kernel
def remember_nodes(
    observation: ObservationBatch,
    first_row: Int64,
    units: Scales,
    known: Float64,
    node_x: Float32,
    is_stale: NDArray[np.bool_],
    changed: Int64,
) -> int:
    """Write the features of all stages to `node_x`; list the jobs in which one has changed.

    Most stages are unchanged, and comparing them with `known` costs a tenth of the logarithms.

    Args:
        observation: B decisions with J jobs.
        first_row: (J,) row of `known` and `node_x` for the first stage of each job.
        units: of the workload.
        known: (rows, KNOWN) inputs of the features at the last call, NaN for new stages.
        node_x: (rows, len(NODE)).
        is_stale: (rows,) to be set for the stages that have changed.
        changed: (J,) to fill.

    Returns:
        number of changed jobs, which are the first entries of `changed`.
    """
    count = 0
    for decision in range(len(observation.time_ms)):
        executors = float(observation.num_executors[decision])
        for index in range(observation.job_ptr[decision], observation.job_ptr[decision + 1]):
            job = observation.jobs[observation.rows[index]]
            differs = False
            for local in range(job["num_stages"]):
                stage = observation.stages[job["first_stage"] + local]
                row = first_row[index] + local
                numbers = (
                    float(stage["num_tasks"]),
                    float(stage["launched"]),
                    float(stage["covered"] - stage["finished"]),
                    float(stage["runnable"]),
                    float(stage["mean_ms"]),
                    scarcity(
                        observation.classes[decision], stage, observation.num_executors[decision]
                    ),
                    executors,
                )
                is_new = False
                for column in range(KNOWN):
                    if known[row, column] != numbers[column]:
                        known[row, column] = numbers[column]
                        is_new = True
                if is_new and _describe_node(numbers, units, node_x[row]):
                    is_stale[row] = True
                    differs = True
            if differs:
                changed[count] = index
                count += 1
    return count


@inlined_kernel
def _describe_node(
    numbers: tuple[float, float, float, float, float, float, float], units: Scales, row: Float32
) -> bool:
    """Write columns `NODE` from the numbers of `remember_nodes`; return whether one changed."""
    num_tasks, launched, working, runnable, mean_ms, scarce, executors = numbers
    left = max(0.0, num_tasks - launched)
    # The nearest quarter power of two (of left + 1) rarely changes.
    left = 2.0 ** (round(4 * math.log2(1.0 + left)) / 4) - 1.0
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
def fill(observation: ObservationBatch, units: Scales, out: Choices) -> tuple[int, int, int]:
    """Fill `out` for B decisions; return the numbers of open stages, limits, and classes for
    stages.
    """
    stages = limits = kinds = 0
    for decision in range(len(observation.time_ms)):
        first_job, last_job = observation.job_ptr[decision], observation.job_ptr[decision + 1]
        out.open_ptr[decision] = stages
        for index in range(first_job, last_job):
            out.first_open[index] = stages
            out.decision_of_job[index] = decision
            stages = _describe_stages(observation, decision, index, stages, units, out)
        if last_job > first_job:
            out.first_open[last_job] = stages
            _count_less(observation, first_job, last_job, out)
            for row in range(out.open_ptr[decision], stages):
                kinds = _describe_classes(observation, decision, row, kinds, out)
        total_ms = _describe_cluster(observation, decision, units, out)
        for index in range(first_job, last_job):
            _describe_job(observation, decision, index, units, total_ms, out)
            out.limit_ptr[index] = limits
            limits = _list_limits(observation, decision, index, limits, out)
        cluster_x = out.cluster_x[decision]
        cluster_x[14] = _mean(out.job_x, 9, first_job, last_job)
        cluster_x[15] = _deviation(out.job_x, 9, first_job, last_job)
        first_stage = out.first_open[first_job] if last_job > first_job else stages
        cluster_x[16] = _deviation(out.stage_x, 3, first_stage, stages)
    out.open_ptr[len(observation.time_ms)] = stages
    out.limit_ptr[len(observation.rows)] = limits
    out.kind_ptr[stages] = kinds
    return stages, limits, kinds


@inlined_kernel
def _describe_stages(
    observation: ObservationBatch, decision: int, index: int, row: int, units: Scales, out: Choices
) -> int:
    """Write columns `STAGE` of a job's open stages from `row` on; return the next free row."""
    job = observation.jobs[observation.rows[index]]
    executors = float(observation.num_executors[decision])
    offered = max(1.0, float(observation.on_offer[decision]))
    share = executors / (observation.job_ptr[decision + 1] - observation.job_ptr[decision])
    typical_ms = max(observation.typical_ms[decision], LEAST_WORK_MS)
    remaining_ms = max(job["remaining_ms"], 1e-6)
    wanted = 0
    first = leading = row
    longest_ms = 1e-3
    if job["open_stages"] > 0 and job["held"] < observation.num_executors[decision]:
        for local in range(job["num_stages"]):
            number = job["first_stage"] + local
            stage = observation.stages[number]
            demand = stage["num_tasks"] - stage["covered"]
            if stage["open"] == 0 or demand <= 0:
                continue
            wanted += demand
            mean_ms = max(stage["mean_ms"], 1e-3)
            longest_ms = max(longest_ms, stage["critical_path_ms"])
            out.open_stage[row] = number
            out.open_job[row] = index
            stage_x = out.stage_x[row]
            stage_x[0] = _log1p(4 * demand / executors)
            stage_x[1] = min(1.0, demand / offered)
            stage_x[2] = stage["runnable"]
            stage_x[3] = log2_column(stage["mean_ms"] / units.task_ms)
            stage_x[4] = _log1p(stage["critical_path_ms"] / (4 * units.task_ms)) / 4
            stage_x[6] = min(1.0, demand * stage["mean_ms"] / remaining_ms)
            stage_x[7] = _log1p(observation.moving_delay_ms[decision] / mean_ms) / 4
            stage_x[8] = log2_column(demand / share)
            stage_x[9] = log2_column(mean_ms * executors / typical_ms)
            stage_x[10] = (
                _log1p(wait_ms(observation.jobs, observation.stages, number) / mean_ms) / 4
            )
            classes = observation.classes[decision]
            stage_x[11] = scarcity(classes, stage, observation.num_executors[decision])
            stage_x[12] = 0.0
            if len(classes) > 1:
                stage_x[12] = stage["memory_mb"] / classes[-1]["memory_mb"]
            if is_more_critical(stage, observation.stages[out.open_stage[leading]]):
                leading = row
            row += 1
    for open_row in range(first, row):
        path_ms = observation.stages[out.open_stage[open_row]]["critical_path_ms"]
        out.stage_x[open_row, 5] = path_ms / longest_ms
    out.path_ms[index] = longest_ms
    out.job_x[index, 10] = _log1p(wanted / executors)
    for place, column in enumerate(_LEADING):
        value = out.stage_x[leading, column] if row > first else np.float32(0.0)
        out.job_x[index, _FIRST_LEADING + place] = value
    return row


@inlined_kernel
def _count_less(observation: ObservationBatch, first: int, last: int, out: Choices) -> None:
    """Fill `less`, the number of a decision's jobs with strictly less work left."""
    height, order = out.height[first:last], out.order[0, first:last]
    for index in range(first, last):
        height[index - first] = -observation.jobs[observation.rows[index]]["remaining_ms"]
    sort_descending(height, order, out.order[1, first:last])
    count = 0
    for place in range(last - first):
        if place > 0 and height[order[place]] < height[order[place - 1]]:
            count = place
        out.less[first + order[place]] = count


@inlined_kernel
def _describe_cluster(
    observation: ObservationBatch, decision: int, units: Scales, out: Choices
) -> float:
    """Write columns `CLUSTER` without the means over jobs; return the work not launched."""
    first, last = observation.job_ptr[decision], observation.job_ptr[decision + 1]
    executors = float(observation.num_executors[decision])
    typical_ms = max(observation.typical_ms[decision], LEAST_WORK_MS)
    delay_ms = observation.moving_delay_ms[decision]
    total_ms = 0.0
    held = 0
    for index in range(first, last):
        job = observation.jobs[observation.rows[index]]
        total_ms += max(job["remaining_ms"], 0.0)
        held += job["held"]
    jobs = float(last - first)
    row = out.cluster_x[decision]
    row[0] = observation.on_offer[decision] / executors
    row[1] = log2_column(float(observation.on_offer[decision]))
    row[2] = log2_column(jobs / executors) + 0.5
    row[3] = log2_column(jobs)
    row[4] = log2_column(0.0625 + total_ms / units.work_ms)
    row[5] = log2_column(total_ms / max(1.0, jobs) / typical_ms)
    row[6] = held / executors
    row[7] = 1.0 if observation.protocol[decision] == SESSION else 0.0
    row[8] = 1.0 if observation.protocol[decision] == DECIMA_SIM else 0.0
    row[9] = log2_column(executors / 50.0)
    row[10] = _log1p(delay_ms / units.task_ms) / 4
    row[11] = log2_column(delay_ms / typical_ms)
    quiet_ms = max(observation.time_ms[decision] - observation.last_arrival_ms[decision], 0.0)
    row[12] = min(_log1p(quiet_ms * executors / units.work_ms) / 4, LONGEST)
    row[13] = log2_column(observation.mean_gap_ms[decision] * executors / units.work_ms)
    row[17] = observation.inflation[decision]
    return total_ms


@inlined_kernel
def _describe_job(
    observation: ObservationBatch,
    decision: int,
    index: int,
    units: Scales,
    total_ms: float,
    out: Choices,
) -> None:
    """Write columns `JOB` except "wanted"."""
    row = out.job_x[index]
    job = observation.jobs[observation.rows[index]]
    executors = float(observation.num_executors[decision])
    jobs = float(observation.job_ptr[decision + 1] - observation.job_ptr[decision])
    remaining_ms = max(job["remaining_ms"], 0.0)
    row[0] = job["held"] / executors
    row[1] = log2_column((job["held"] + 0.5) * jobs / executors)
    row[2] = 1.0 if job["held"] == 0 else 0.0
    row[3] = job["local"] / max(1.0, float(observation.on_offer[decision]))
    row[4] = 1.0 if observation.rows[index] == observation.source_job[decision] else 0.0
    row[5] = log2_column(remaining_ms / units.work_ms)
    row[6] = log2_column(remaining_ms * jobs / max(total_ms, 1e-6))
    row[7] = out.less[index] / max(1.0, jobs - 1.0)
    row[8] = remaining_ms / max(job["work_ms"], 1e-6)
    age_ms = max(observation.time_ms[decision] - job["arrival_ms"], 0.0)
    row[9] = min(_log1p(age_ms * executors / units.work_ms) / 4, LONGEST)
    row[11] = log2_column(remaining_ms / max(observation.typical_ms[decision], LEAST_WORK_MS))
    row[12] = log2_column(remaining_ms * jobs / (out.path_ms[index] * executors))


@inlined_kernel
def _mean(table: Float32, column: int, first: int, last: int) -> float:
    total = 0.0
    for index in range(first, last):
        total += table[index, column]
    return total / max(1.0, float(last - first))


@inlined_kernel
def _deviation(table: Float32, column: int, first: int, last: int) -> float:
    """Return the standard deviation around the mean, exactly 0 for equal values."""
    mean = _mean(table, column, first, last)
    squares = 0.0
    for index in range(first, last):
        squares += (table[index, column] - mean) ** 2
    return math.sqrt(squares / max(1.0, float(last - first)))


# --- limits --------------------------------------------------------------------------------------

EVERY = 8  # up to this number executors are added one by one; beyond, in steps of a quarter octave


@kernel
def most_limits(observation: ObservationBatch) -> int:
    """Upper bound on the number of limits that may be chosen."""
    count = 0
    for decision in range(len(observation.time_ms)):
        offered = observation.on_offer[decision]
        for index in range(observation.job_ptr[decision], observation.job_ptr[decision + 1]):
            open_stages = observation.jobs[observation.rows[index]]["open_stages"]
            if open_stages > 0:
                grid = EVERY + 4 * math.ceil(math.log2(max(1.0, offered / EVERY)))
                count += min(offered, grid + 5 + open_stages)
    return count


@inlined_kernel
def _list_limits(
    observation: ObservationBatch, decision: int, index: int, row: int, out: Choices
) -> int:
    """List the limits that a job may be given from `row` on; return the next free row.

    The executors added are 1 to `EVERY`, then in steps of a quarter octave, as 41 and 42 executors
    hardly differ. Added too are the numbers that bring the job to half, all or twice its fair
    share, that a single open stage can use, and that the whole job can use (with classes, plus
    those in the job already). The steps continue from each of these.
    """
    wanted = _wanted(observation, out, index)
    job = observation.jobs[observation.rows[index]]
    offered = observation.on_offer[decision]
    usable = wanted
    if wanted > 0 and observation.classes.shape[1] > 1:
        # Executors that finish their last tasks in the job count against its limit.
        usable += job["local"]
    room = min(usable, offered, observation.num_executors[decision] - job["held"])
    size = float(observation.num_executors[decision])
    jobs = observation.job_ptr[decision + 1] - observation.job_ptr[decision]
    added = 0
    while added < room:
        following = _next_added(observation, out, index, added, math.ceil(size / jobs), room)
        added = _sooner(following, added, wanted)
        out.limit[row] = job["held"] + added
        out.limit_job[row] = index
        row += 1
    return row


@inlined_kernel
def _wanted(observation: ObservationBatch, choices: Choices, index: int) -> int:
    """Return the tasks of a job's open stages that have no executor."""
    wanted = 0
    for entry in range(choices.first_open[index], choices.first_open[index + 1]):
        stage = observation.stages[choices.open_stage[entry]]
        wanted += stage["num_tasks"] - stage["covered"]
    return wanted


@kernel
def describe_limits(
    observation: ObservationBatch, choices: Choices, is_needed: NDArray[np.bool_]
) -> None:
    """Write columns `LIMIT` of all limits of the jobs that are needed (J,)."""
    for index in range(len(is_needed)):
        if not is_needed[index]:
            continue
        decision = choices.decision_of_job[index]
        job = observation.jobs[observation.rows[index]]
        wanted = _wanted(observation, choices, index)
        offered = observation.on_offer[decision]
        size = float(observation.num_executors[decision])
        jobs = observation.job_ptr[decision + 1] - observation.job_ptr[decision]
        for row in range(choices.limit_ptr[index], choices.limit_ptr[index + 1]):
            limit = choices.limit[row]
            added = limit - job["held"]
            limit_x = choices.limit_x[row]
            limit_x[0] = limit / size
            limit_x[1] = log2_column(limit * jobs / size)
            limit_x[2] = added / size
            limit_x[3] = log2_column(float(added))
            limit_x[4] = max(0.0, added - job["local"]) / added
            limit_x[5] = min(1.0, added / wanted)
            limit_x[6] = log2_column(wanted / added)
            limit_x[7] = (offered - added) / offered
            limit_x[8] = (offered - added) / size


@inlined_kernel
def _next_added(
    observation: ObservationBatch, out: Choices, index: int, added: int, share: int, room: int
) -> int:
    """The next larger number of executors among those that a limit may add."""
    step = 1
    while EVERY * 2 * step <= added:
        step *= 2
    quarter = 1 if added < EVERY else max(1, EVERY * step // 4)
    following = min(room, added + quarter)
    held = observation.jobs[observation.rows[index]]["held"]
    following = _sooner(following, added, (share + 1) // 2 - held)
    following = _sooner(following, added, share - held)
    following = _sooner(following, added, 2 * share - held)
    for entry in range(out.first_open[index], out.first_open[index + 1]):
        stage = observation.stages[out.open_stage[entry]]
        following = _sooner(following, added, stage["num_tasks"] - stage["covered"])
    return following


@inlined_kernel
def _sooner(following: int, added: int, candidate: int) -> int:
    """The candidate, if it lies between `added` and `following`."""
    return candidate if added < candidate < following else following


# --- classes -------------------------------------------------------------------------------------


@inlined_kernel
def _describe_classes(
    observation: ObservationBatch, decision: int, index: int, row: int, out: Choices
) -> int:
    """Write columns `CLASS` of an open stage from `row` on; return the next free row."""
    out.kind_ptr[index] = row
    classes = observation.classes[decision]
    if len(classes) == 1:
        return row
    stage = observation.stages[out.open_stage[index]]
    executors = float(observation.num_executors[decision])
    first = row
    for kind in range(len(classes)):
        if not is_on_offer(classes, stage, kind):
            continue
        of_kind = classes[kind]
        out.kind[row] = kind
        out.kind_stage[row] = index
        x = out.class_x[row]
        x[0] = of_kind["memory_mb"] / classes[-1]["memory_mb"]
        x[1] = stage["memory_mb"] / of_kind["memory_mb"]
        x[2] = of_kind["on_offer"] / executors
        x[3] = of_kind["on_offer"] / of_kind["count"]
        x[4] = of_kind["count"] / executors
        x[5] = 1.0 if stage["fits"] & ((1 << kind) - 1) != 0 else 0.0
        x[6] = 1.0 if row == first else 0.0
        row += 1
    return row


# --- all of them ---------------------------------------------------------------------------------


def describe(observation: ObservationBatch, units: Scales) -> Choices:
    """Return what may be chosen in the decisions, with the columns of the heads but `LIMIT`.

    `describe_limits` writes those of the jobs whose limits matter, which are few.
    """
    decisions, jobs = len(observation.time_ms), len(observation.rows)
    stages = int(observation.jobs["open_stages"][observation.rows].sum())
    limits = int(most_limits(observation))
    classes = observation.classes.shape[1]
    kinds = stages * classes if classes > 1 else 0
    out = Choices(
        stage_x=np.empty((stages, len(columns.STAGE)), np.float32),
        job_x=np.zeros((jobs, len(columns.JOB)), np.float32),
        cluster_x=np.zeros((decisions, len(columns.CLUSTER)), np.float32),
        limit_x=np.empty((limits, len(columns.LIMIT)), np.float32),
        class_x=np.empty((kinds, len(columns.CLASS)), np.float32),
        decision_of_job=np.empty(jobs, np.int64),
        job_ptr=observation.job_ptr,
        open_stage=np.empty(stages, np.int64),
        open_job=np.empty(stages, np.int64),
        open_ptr=np.empty(decisions + 1, np.int64),
        first_open=np.zeros(jobs + 1, np.int64),
        limit=np.empty(limits, np.int64),
        limit_job=np.empty(limits, np.int64),
        limit_ptr=np.empty(jobs + 1, np.int64),
        kind=np.empty(kinds, np.int64),
        kind_stage=np.empty(kinds, np.int64),
        kind_ptr=np.empty(stages + 1, np.int64),
        path_ms=np.empty(jobs),
        height=np.empty(jobs),
        order=np.empty((2, jobs), np.int64),
        less=np.empty(jobs, np.int64),
    )
    stages, limits, kinds = fill(observation, units, out)
    return out._replace(
        stage_x=out.stage_x[:stages],
        open_stage=out.open_stage[:stages],
        open_job=out.open_job[:stages],
        limit_x=out.limit_x[:limits],
        limit=out.limit[:limits],
        limit_job=out.limit_job[:limits],
        class_x=out.class_x[:kinds],
        kind=out.kind[:kinds],
        kind_stage=out.kind_stage[:kinds],
        kind_ptr=out.kind_ptr[: stages + 1],
    )
