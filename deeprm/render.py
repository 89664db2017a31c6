"""The state of a cluster as a picture, as in figure 2 of the paper: each job in its own colour.

A row for each resource; from left to right the machines (a row of cells for each step ahead), the
jobs in the slots, and the count of those beyond. Units that a resource does not have are grey.
"""

from __future__ import annotations

import numpy as np

from decima.rl.colours import job_colour
from decima.rl.study.lockstep import ONLY
from deeprm.episodes import Episodes
from deeprm.tables import NONE, Int32, UInt8

CELL = 6
"""pixels of a unit, and of a step, on the screen"""
GAP = 10
"""pixels between two parts"""
MISSING = -2
"""a unit that the resource does not have; a job beyond the slots has its colour"""
_WHITE = (255, 255, 255)
_FRAME = (60, 60, 60)
_GREY = (120, 120, 120)


def rgb(episodes: Episodes) -> UInt8:
    """(H, W, 3) picture of the first episode."""
    config, state, jobs = episodes.config, episodes.state, episodes.jobs
    rows = []
    for resource in range(config.resources):
        parts = [
            _panel(machine_cells(episodes, machine, resource)) for machine in range(config.machines)
        ]
        for job in state.slot[0]:
            cells = np.full((config.horizon, config.max_demand), NONE, np.int32)
            if job != NONE:
                s = state.jobs_of[0]
                cells[: jobs.duration[s, job], : jobs.demand[s, job, resource]] = job
            parts.append(_panel(cells))
        rows.append(np.concatenate(parts, axis=1))
    cluster = np.concatenate(rows)

    # The count of jobs beyond the slots, up to what the image of the network can show.
    columns = -(-config.backlog // config.horizon)
    waiting = int(episodes.backlog(ONLY)[0])
    place = np.arange(config.horizon * columns).reshape(config.horizon, columns)
    shown = np.where(place < min(waiting, config.backlog), MISSING, NONE).astype(np.int32)
    panel = _panel(shown)
    backlog = np.full((len(cluster), panel.shape[1], 3), _WHITE, np.uint8)
    backlog[: len(panel)] = panel
    return np.concatenate([cluster, backlog], axis=1)


def panel_corners(episodes: Episodes) -> list[tuple[int, int]]:
    """Return the left and right pixels of each machine, each slot and the backlog count."""
    config = episodes.config
    beyond = -(-config.backlog // config.horizon)
    machines = [max(config.capacities)] * config.machines
    widths = [*machines, *[config.max_demand] * config.slots, beyond]
    corners, left = [], 0
    for columns in widths:
        width = columns * CELL + 2
        corners.append((left + GAP, left + GAP + width))
        left += width + 2 * GAP
    return corners


def machine_cells(episodes: Episodes, machine: int, resource: int) -> Int32:
    """(T, most units) row of the job that holds each unit in each step ahead, NONE or MISSING.

    Jobs are drawn in the order of arrival, each in the first units that are free in the step.
    """
    config, state, jobs = episodes.config, episodes.state, episodes.jobs
    s, now = state.jobs_of[0], state.time[0]
    cells = np.full((config.horizon, max(config.capacities)), NONE, np.int32)
    cells[:, config.capacities[resource] :] = MISSING
    for job in np.nonzero((state.start[0] != NONE) & (state.machine[0] == machine))[0]:
        start, units = state.start[0, job] - now, jobs.demand[s, job, resource]
        for step in range(max(start, 0), start + jobs.duration[s, job]):
            free = np.nonzero(cells[step] == NONE)[0][:units]
            cells[step, free] = job
    return cells


def _panel(cells: Int32) -> UInt8:
    """Cells as squares, framed, with a gap around."""
    colours = np.full((*cells.shape, 3), _WHITE, np.uint8)
    colours[cells == MISSING] = _GREY
    for job in np.unique(cells[cells >= 0]):
        colours[cells == job] = [round(255 * part) for part in job_colour(int(job))]
    squares = colours.repeat(CELL, axis=0).repeat(CELL, axis=1)
    framed = np.pad(squares, ((1, 1), (1, 1), (0, 0)))
    framed[[0, -1]] = _FRAME
    framed[:, [0, -1]] = _FRAME
    return np.pad(framed, ((GAP, GAP), (GAP, GAP), (0, 0)), constant_values=255)
