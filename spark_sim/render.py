"""Pictures of a run under way, as text and as an image: `render` of `spark_sim.env`."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_sim.tables import State
from traces.numbers import MS_PER_S, Float64, Int64

MODES = ("ansi", "rgb_array")
COLUMNS = 600
"""of the image: the time from 0 to now"""
LEAST_HEIGHT = 200
"""of the image, in which each executor has the same number of rows"""
_GOLDEN = 0.618034
"""turn of the hue from a job to the next: neighbours differ, whatever their number"""
_WHITE = (255, 255, 255)


def text(state: State) -> str:
    """A line for the cluster, and one for each job in the system, by arrival."""
    clock = state.clock[0]
    executors = int(clock["num_executors"])
    lines = [
        f"{clock['time_ms'] / MS_PER_S:.1f} s: {clock['num_active']} jobs in the system, "
        f"{clock['on_offer']} of {executors} executors on offer"
    ]
    for number in state.active[: clock["num_active"]].tolist():
        job = state.jobs[number]
        done = 1 - max(0.0, job["remaining_ms"]) / max(job["work_ms"], 1e-6)
        age_s = (clock["time_ms"] - job["arrival_ms"]) / MS_PER_S
        lines.append(
            f"job {number}: {job['held']:4d} executors, {done:4.0%} of its work started, "
            f"{job['stages_done']} of {job['num_stages']} stages complete, {age_s:.1f} s old"
        )
    return "\n".join(lines)


def image(state: State) -> NDArray[np.uint8]:
    """(height, COLUMNS, 3) the tasks of each executor from 0 to now, one colour a job.

    Args:
        state: with a timeline.
    """
    clock = state.clock[0]
    executors = int(clock["num_executors"])
    tasks = state.timeline[: clock["tasks_started"]]
    tasks = tasks[np.lexsort((tasks["start_ms"], tasks["executor"]))]
    job = raster(
        tasks["executor"], tasks["start_ms"], tasks["finish_ms"], tasks["job"],
        executors, COLUMNS, float(clock["time_ms"]),
    )  # fmt: skip
    colours = np.array([*(_colour(number) for number in range(len(state.jobs))), _WHITE], np.uint8)
    picture: NDArray[np.uint8] = colours[job]
    return np.repeat(picture, -(-LEAST_HEIGHT // executors), axis=0)


def raster(
    executor: NDArray[Any],
    start_ms: Float64,
    finish_ms: Float64,
    job: NDArray[Any],
    executors: int,
    columns: int,
    end_ms: float,
) -> Int64:
    """Return (executors, columns) the job at the middle of each column of 0 .. end_ms, or -1.

    Args:
        executor: (T,) of each task; tasks are sorted by executor, then by start.
        start_ms: (T,)
        finish_ms: (T,)
        job: (T,)
        executors: rows.
        columns: parts of the time.
        end_ms: end of the last.
    """
    jobs = np.full((executors, columns), -1, np.int64)
    middle_ms = (np.arange(columns) + 0.5) * end_ms / columns
    first = np.searchsorted(executor, np.arange(executors + 1))
    for row in range(executors):
        tasks = slice(int(first[row]), int(first[row + 1]))
        if tasks.start < tasks.stop:
            latest = np.searchsorted(start_ms[tasks], middle_ms, side="right") - 1
            runs = (latest >= 0) & (finish_ms[tasks][latest] > middle_ms)
            jobs[row, runs] = job[tasks][latest[runs]]
    return jobs


def _colour(job: int) -> tuple[int, int, int]:
    red, green, blue = colorsys.hsv_to_rgb(job * _GOLDEN % 1.0, 0.65, 0.85)
    return round(255 * red), round(255 * green), round(255 * blue)
