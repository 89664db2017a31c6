"""The rules of `traces.model` for whole columns at once, and the critical paths of all stages."""

from __future__ import annotations

import numpy as np

from traces.columns import Columns, Rows, starts
from traces.errors import TraceError
from traces.files.numbers import MAX_TIME_MS
from traces.model import MAX_EXECUTORS, MAX_SLOTS, MAX_TASKS_PER_STAGE
from traces.numbers import Bool, Float64, Int64


def check(columns: Columns) -> None:
    """Check every rule of `traces.model`; TraceError names the first job that breaks one."""
    if columns.num_jobs == 0:
        return  # `Trace` refuses it
    if (np.diff(columns.first_stage) == 0).any():
        columns.job(int(np.argmin(np.diff(columns.first_stage))))  # raises: it has no stage
    bad = _bad_jobs(columns)
    if not bad.any():
        return
    row = int(np.argmax(bad))
    columns.job(row)
    raise TraceError(f"job {columns.job_name[row]!r} breaks a rule of jobs")


def _bad_jobs(columns: Columns) -> Bool:
    """(J,) whether a job breaks a rule."""
    job_of = columns.job_of_stage
    bad_stages = _bad_stages(columns)
    bad = np.zeros(columns.num_jobs, np.bool_)
    bad[job_of[bad_stages]] = True
    bad |= ~(np.isnan(columns.arrival_ms) | _within(columns.arrival_ms, 0.0))
    bad |= ~((columns.weight > 0) & np.isfinite(columns.weight))
    bad |= (columns.deadline_ms <= 0) | (columns.deadline_ms > MAX_TIME_MS)
    bad[_repeated(job_of, columns.stage_name.index)] = True
    if bad_stages.any():
        return bad  # the rest reads what is wrong already
    bad |= ~(columns.work_ms() <= MAX_TIME_MS)
    is_left = _longest_paths(columns, children_of(columns), np.zeros(len(job_of)))[1]
    bad[job_of[is_left]] = True
    return bad


def _within(values: Float64, least: float) -> Bool:
    return np.asarray((values >= least) & (values <= MAX_TIME_MS))


def _bad_stages(columns: Columns) -> Bool:
    """(S,) whether a stage breaks a rule of its own."""
    levels = np.diff(columns.first_level)
    bad: Bool = ~((columns.num_tasks >= 1) & (columns.num_tasks <= MAX_TASKS_PER_STAGE)) | (
        levels == 0
    )
    for demand in (columns.cpu, columns.memory_mb):
        bad |= np.isinf(demand) | (demand < 0)
    bad |= ~((columns.slots >= 1) & (columns.slots <= MAX_SLOTS))
    of_level = np.repeat(np.arange(len(levels)), levels)
    bad[of_level[_bad_levels(columns)]] = True
    falls = (np.diff(columns.executors) <= 0) & (np.diff(of_level) == 0)
    bad[of_level[1:][falls]] = True
    child, parent = columns.parents.owner(), columns.parents.values.astype(np.int64)
    of_job = columns.job_of_stage[child]
    first, end = columns.first_stage[of_job], columns.first_stage[of_job + 1]
    is_wrong = (parent < 0) | (parent >= end - first) | (parent == child - first)
    bad[child[is_wrong]] = True
    bad[_repeated(child, parent)] = True
    return bad


def _bad_levels(columns: Columns) -> Bool:
    """(L,) whether a level breaks a rule of its own."""
    bad = ~((columns.executors >= 1) & (columns.executors <= MAX_EXECUTORS))
    is_empty = np.ones(len(bad), np.bool_)
    for wave in columns.waves:
        values = wave.values
        is_wrong = ~((values > 0) & (values <= MAX_TIME_MS))
        if is_wrong.any():
            bad[wave.owner()[is_wrong]] = True
        is_empty &= wave.counts == 0
    is_bad: Bool = bad | is_empty
    return is_bad


def _repeated(owner: Int64, value: Int64) -> Int64:
    """Return the owners that have a value twice."""
    if len(owner) == 0:
        return owner
    order = np.lexsort((value, owner))
    is_same = (np.diff(owner[order]) == 0) & (np.diff(value[order]) == 0)
    owners: Int64 = owner[order][1:][is_same]
    return owners


# --- graphs --------------------------------------------------------------------------------------


def children_of(columns: Columns) -> Rows:
    """(S,) children of each stage as rows of all stages, ascending."""
    child = columns.parents.owner()
    parent = columns.first_stage[columns.job_of_stage[child]] + columns.parents.values
    counts = np.bincount(parent, minlength=len(columns.num_tasks))
    return Rows(starts(counts), child[np.argsort(parent, kind="stable")])


def critical_paths_ms(columns: Columns, children: Rows, mean_ms: Float64) -> Float64:
    """(S,) critical path of each stage, as `traces.model.longest_paths` of each job."""
    return _longest_paths(columns, children, mean_ms)[0]


def _longest_paths(columns: Columns, children: Rows, weight: Float64) -> tuple[Float64, Bool]:
    """Return each stage's longest path (S,), and whether it lies on a cycle or above one."""
    first_of = columns.first_stage[columns.job_of_stage]
    start, parents = columns.parents.start, columns.parents.values
    missing = children.counts.copy()
    longest = np.zeros(len(missing))
    place_of = np.empty_like(missing)  # scratch
    ready = np.flatnonzero(missing == 0)
    while len(ready):
        longest[ready] += weight[ready]
        counts = start[ready + 1] - start[ready]
        child = np.repeat(ready, counts)
        place = np.repeat(start[ready] - np.cumsum(counts) + counts, counts)
        parent = first_of[child] + parents[place + np.arange(len(child))]
        np.maximum.at(longest, parent, longest[child])
        np.subtract.at(missing, parent, 1)
        # Each row once.
        ready = parent[missing[parent] == 0]
        place_of[ready] = np.arange(len(ready))
        ready = ready[place_of[ready] == np.arange(len(ready))]
    return longest, missing > 0
