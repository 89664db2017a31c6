"""Pictures of a run under way, as text and as an image: `render` of `spark_sim.env`."""

from __future__ import annotations

import colorsys

import numpy as np
from numpy.typing import NDArray

from spark_sim.tables import State
from traces.numbers import MS_PER_S

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
    executors, now_ms = int(clock["num_executors"]), float(clock["time_ms"])
    tasks = state.timeline[: clock["tasks_started"]]
    tasks = tasks[np.lexsort((tasks["start_ms"], tasks["executor"]))]
    time_ms = (np.arange(COLUMNS) + 0.5) / COLUMNS * now_ms
    colours = np.array([*(_colour(job) for job in range(len(state.jobs))), _WHITE], np.uint8)
    job = np.full((executors, COLUMNS), len(state.jobs))
    first = np.searchsorted(tasks["executor"], np.arange(executors + 1))
    for executor in range(executors):
        own_tasks = tasks[first[executor] : first[executor + 1]]
        if len(own_tasks):
            latest = np.searchsorted(own_tasks["start_ms"], time_ms, side="right") - 1
            runs = (latest >= 0) & (own_tasks["finish_ms"][latest] > time_ms)
            job[executor, runs] = own_tasks["job"][latest[runs]]
    picture: NDArray[np.uint8] = colours[job]
    return np.repeat(picture, -(-LEAST_HEIGHT // executors), axis=0)


def _colour(job: int) -> tuple[int, int, int]:
    red, green, blue = colorsys.hsv_to_rgb(job * _GOLDEN % 1.0, 0.65, 0.85)
    return round(255 * red), round(255 * green), round(255 * blue)
