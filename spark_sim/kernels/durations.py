"""Task durations: the level follows the job's executors, the wave follows the executor's past."""

from __future__ import annotations

import numpy as np

from spark_sim.compile import inlined_kernel
from spark_sim.tables import NONE, State
from traces.arrays import FIRST, FRESH, REST, TraceArrays

# Odd constants of splitmix64 (Steele, Lea, Flood 2014) and two further odd multipliers.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_JOB = np.uint64(0xD1342543DE82EF95)
_STAGE = np.uint64(0xDA942042E4DD58B5)
_32 = np.uint64(32)

_STRIDES = (
    2147483647,
    2147483629,
    2147483587,
    2147483579,
    2147483563,
    2147483549,
    2147483543,
    2147483497,
)
"""primes above any number of durations: strides of that size, modulo the number, reach each"""

DECIMA_SIM_LEVELS = (5, 10, 20, 40, 50, 60, 80, 100)
"""the executor counts that decima-sim looks up; it leaves out the recorded level 2"""


@inlined_kernel
def task_hash(key: int | np.uint64, job: int, stage: int, task: int) -> np.uint64:
    """64 random bits that belong to one task of one run, whenever and wherever it runs."""
    return hash_in_stage(stage_hash(key, job, stage), task)


@inlined_kernel
def stage_hash(key: int | np.uint64, job: int, stage: int) -> np.uint64:
    """Part of `task_hash` that all tasks of a stage share."""
    return _mix(np.uint64(key) + np.uint64(job + 1) * _JOB + np.uint64(stage + 1) * _STAGE)


@inlined_kernel
def hash_in_stage(of_stage: np.uint64, task: int) -> np.uint64:
    """Hash of a task, given the part of its stage."""
    return _mix(of_stage + np.uint64(task + 1) * _GAMMA)


@inlined_kernel
def _mix(bits: np.uint64) -> np.uint64:
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))


@inlined_kernel
def upper_level(trace: TraceArrays, template: int, executors: int) -> int:
    """Row of the first level of at least `executors`; the last one if there is none."""
    row = trace.first_level[template]
    last = trace.first_level[template + 1] - 1
    while row < last and trace.level_executors[row] < executors:
        row += 1
    return int(row)


@inlined_kernel
def pick_level(
    trace: TraceArrays, template: int, executors: int, low_bits: np.uint64, upper: int
) -> int:
    """Row of the level for a job with `executors` executors, given the `upper_level`.

    Between two recorded levels ``lo < x < hi`` the upper one is taken with probability
    ``(x - lo) / (hi - lo)``: the expected duration is linear in x.
    """
    if trace.level_executors[upper] <= executors or upper == trace.first_level[template]:
        return upper
    low = trace.level_executors[upper - 1]
    span = np.uint64(trace.level_executors[upper] - low)
    # low_bits * span / 2^32 < x - lo, in whole numbers
    if (low_bits * span) >> _32 < np.uint64(executors - low):
        return upper
    return upper - 1


@inlined_kernel
def pick_level_decima_sim(
    trace: TraceArrays, template: int, executors: int, low_bits: np.uint64
) -> int:
    """decima-sim's rule: fixed levels, and the *nearer* one with the *smaller* probability."""
    wanted = DECIMA_SIM_LEVELS[0]
    for index in range(len(DECIMA_SIM_LEVELS)):
        level = DECIMA_SIM_LEVELS[index]
        if executors >= level:
            wanted = level
        elif index > 0 and executors > wanted:
            draw = 1 + np.int64((low_bits * np.uint64(level - wanted)) >> _32)
            if draw > executors - wanted:
                wanted = level
            break
    first = trace.first_level[template]
    last = trace.first_level[template + 1] - 1
    for row in range(first, last + 1):
        if trace.level_executors[row] == wanted:
            return int(row)
    return int(last)


@inlined_kernel
def wave_of(state: State, executor: int, stage: int) -> int:
    """FRESH for an executor new to the job, REST in the stage of its last task, else FIRST."""
    last = state.executors[executor]["last_stage"]
    if last == NONE:
        return FRESH
    if last == stage:
        return REST
    return FIRST


@inlined_kernel
def task_duration(state: State, executor: int, stage: int, level: int, bits: np.uint64) -> float:
    """Duration in ms of the next task of `stage` on `executor`; counts its inflation."""
    trace = state.trace
    clock = state.clock[0]
    row = state.stages[stage]
    wave = wave_of(state, executor, stage)
    count = trace.wave_count[level, wave]
    index = np.int64(((bits >> _32) * np.uint64(count)) >> _32)
    if clock["each_once"]:
        # All durations come once, in an order drawn for the stage.
        local = stage - state.jobs[row["job"]]["first_stage"]
        bits = task_hash(clock["duration_key"], row["job"], local, NONE)
        first = np.int64(((bits >> _32) * np.uint64(count)) >> _32)
        stride = _STRIDES[np.int64(bits & np.uint64(len(_STRIDES) - 1))]
        index = np.int64((first + row["launched"] * stride) % count)
    duration_ms = np.float64(trace.samples_ms[trace.wave_start[level, wave] + index])
    if wave == FRESH and not trace.fresh_is_measured[level]:
        duration_ms += clock["warmup_delay_ms"]
    if wave == FRESH:
        clock["first_ms"] += duration_ms
    lowest = trace.first_level[row["template"]]
    clock["inflation_ms"] += trace.wave_mean_ms[level, wave] - trace.wave_mean_ms[lowest, wave]
    return duration_ms
