"""Observations: the image as rows of a table of rectangles and cell by cell, and shares."""

from __future__ import annotations

from typing import NamedTuple

from deeprm.compile import inlined_kernel, kernel
from deeprm.sim_kernels import delay
from deeprm.tables import NONE, Float32, Int16, Int32, Jobs, Rules, State

LONGEST_GAP = 10
"""steps without an arrival beyond which the image shows no difference, as in the released code"""
ARRIVAL_LEVELS = LONGEST_GAP + 1
THERE, DURATION, WAIT, DEMAND = range(4)
"""numbers of a slot; the demands for each resource stand from DEMAND on"""


class Shape(NamedTuple):
    """Parts of an image, from left to right; a table of rectangles has the same order."""

    horizon: int
    """T rows of the image, one for each step"""
    resources: int
    """d"""
    pools: int
    """P, parts of the cluster: each resource of each machine"""
    capacity: int
    """units of the largest resource of a machine"""
    cluster_columns: int
    """of each pool"""
    slots: int
    """M"""
    slot_columns: int
    """of each slot and resource: units of the largest demand"""
    max_duration: int
    """rows of the longest job"""
    backlog: int
    """jobs that can be counted, row by row"""
    backlog_columns: int
    arrival_columns: int
    """1 if the image shows the time since the last arrival, as grey, else 0"""


@inlined_kernel
def _backlog(shape: Shape, state: State, e: int) -> int:
    return int(min(state.arrived[e] - state.entered[e], shape.backlog))


@inlined_kernel
def _gap(state: State, e: int) -> int:
    return int(min(state.time[e] - state.last_arrival[e], LONGEST_GAP))


@kernel
def rectangles(shape: Shape, jobs: Jobs, state: State, rows: Int32, chosen: Int16) -> None:
    """Write the (n, K) rectangles of the episodes `rows`; NONE for one without cells."""
    levels = shape.capacity + 1
    widths = shape.slot_columns + 1
    first_slot = shape.horizon * shape.pools * levels
    each_slot = (shape.max_duration + 1) * widths
    first_backlog = first_slot + shape.slots * shape.resources * each_slot
    for i in range(len(rows)):
        e = rows[i]
        s = state.jobs_of[e]
        k = 0
        for row in range(shape.horizon):
            for pool in range(shape.pools):
                used = state.used[e, row, pool]
                chosen[i, k] = NONE if used == 0 else k * levels + used
                k += 1
        for m in range(shape.slots):
            job = state.slot[e, m]
            for r in range(shape.resources):
                chosen[i, k] = NONE
                if job != NONE:
                    corner = first_slot + (m * shape.resources + r) * each_slot
                    corner += jobs.duration[s, job] * widths
                    chosen[i, k] = corner + jobs.demand[s, job, r]
                k += 1
        waiting = _backlog(shape, state, e)
        chosen[i, k] = NONE if waiting == 0 else first_backlog + waiting
        gap = _gap(state, e) if shape.arrival_columns else 0
        chosen[i, k + 1] = NONE if gap == 0 else first_backlog + shape.backlog + 1 + gap


@inlined_kernel
def _fill(pixels: Float32, i: int, column: int, duration: int, width: int) -> None:
    for row in range(duration):
        for c in range(width):
            pixels[i, row, column + c] = 1.0


@kernel
def draw(
    shape: Shape, rules: Rules, jobs: Jobs, state: State, rows: Int32, pixels: Float32
) -> None:
    """Draw the (n, T, C) images of the episodes `rows`, each cell in 0..1, onto zeros."""
    for i in range(len(rows)):
        e = rows[i]
        s = state.jobs_of[e]
        column = 0
        for pool in range(shape.pools):
            each = rules.capacity[pool % shape.resources] // shape.cluster_columns
            for row in range(shape.horizon):
                for c in range(shape.cluster_columns):
                    units = min(max(state.used[e, row, pool] - c * each, 0), each)
                    pixels[i, row, column + c] = units / each
            column += shape.cluster_columns
        for m in range(shape.slots):
            job = state.slot[e, m]
            for r in range(shape.resources):
                if job != NONE:
                    _fill(pixels, i, column, jobs.duration[s, job], jobs.demand[s, job, r])
                column += shape.slot_columns
        for place in range(_backlog(shape, state, e)):
            row = place // shape.backlog_columns
            pixels[i, row, column + place % shape.backlog_columns] = 1.0
        column += shape.backlog_columns
        for c in range(shape.arrival_columns):
            for row in range(shape.horizon):
                pixels[i, row, column + c] = _gap(state, e) / LONGEST_GAP


@kernel
def numbers(
    rules: Rules, jobs: Jobs, state: State, backlog: int, rows: Int32, shares: Float32
) -> None:
    """Write (n, F) numbers of the episodes `rows`: each slot's, then the cluster's."""
    horizon, pools, resources = state.used.shape[1], state.used.shape[2], jobs.demand.shape[2]
    for i in range(len(rows)):
        e = rows[i]
        s = state.jobs_of[e]
        at = 0
        for m in range(state.slot.shape[1]):
            job = state.slot[e, m]
            for part in range(DEMAND + resources):
                shares[i, at + part] = 0.0
            if job != NONE:
                wait = delay(rules, jobs, state, e, job)
                shares[i, at + THERE] = 1.0
                shares[i, at + DURATION] = jobs.duration[s, job] / horizon
                shares[i, at + WAIT] = 1.0 if wait == NONE else wait / horizon
                for r in range(resources):
                    shares[i, at + DEMAND + r] = jobs.demand[s, job, r] / rules.capacity[r]
            at += DEMAND + resources
        for row in range(horizon):
            for pool in range(pools):
                free = 1.0 - state.used[e, row, pool] / rules.capacity[pool % resources]
                shares[i, at] = free
                at += 1
        shares[i, at] = min(state.arrived[e] - state.entered[e], backlog) / backlog
