"""`Columns`: the jobs of a trace as flat columns, and `Job` objects made from them on demand.

A trace of a million jobs has no million objects: files are read to columns, checked as columns
(`check`: the rules of `traces.model`) and simulated from columns (`traces.arrays`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from traces.errors import TraceError
from traces.files.numbers import MAX_TIME_MS
from traces.model import (
    MAX_EXECUTORS,
    MAX_SLOTS,
    MAX_TASKS_PER_STAGE,
    FloatArray,
    Job,
    LevelDurations,
    Stage,
)
from traces.numbers import Bool, Float64, Int64, Integers


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """A column of names, each distinct one stored once."""

    index: Integers  # (K,) rows of `words`
    words: Sequence[str]  # distinct

    def __getitem__(self, row: int) -> str:
        return self.words[int(self.index[row])]

    def listed(self) -> list[str]:
        """Return all K names."""
        words = list(self.words)
        return [words[index] for index in self.index.tolist()]


class Rows(NamedTuple):
    """A column of lists: row k is ``values[start[k] : start[k + 1]]``."""

    start: Integers  # (K + 1,)
    values: NDArray[Any]

    @property
    def counts(self) -> Integers:
        """(K,) lengths of the lists."""
        return np.diff(self.start)

    def owner(self) -> Int64:
        """Row of each value."""
        return np.repeat(np.arange(len(self.start) - 1), self.counts)


class Columns(NamedTuple):
    """J jobs with S stages; L (stage, level) pairs. NaN stands for what the trace lacks."""

    job_name: Names  # (J,)
    arrival_ms: Float64  # (J,)
    weight: Float64  # (J,)
    deadline_ms: Float64  # (J,) after the arrival
    first_stage: Integers  # (J + 1,)
    stage_name: Names  # (S,)
    num_tasks: Integers  # (S,)
    parents: Rows  # (S,) int32, indices of stages of the same job
    cpu: Float64  # (S,)
    memory_mb: Float64  # (S,)
    slots: Integers  # (S,) that each task takes
    barrier: Bool  # (S,) whether all tasks start at once
    first_level: Integers  # (S + 1,)
    executors: Integers  # (L,)
    waves: tuple[Rows, Rows, Rows]  # (L,) float32 each: durations in ms, in the order of `WAVES`

    @property
    def num_jobs(self) -> int:
        return len(self.arrival_ms)

    @property
    def job_of_stage(self) -> Int64:
        """(S,) job of each stage."""
        return np.repeat(np.arange(self.num_jobs), np.diff(self.first_stage))

    def job(self, row: int) -> Job:
        """Make the job of a row; TraceError if it breaks a rule of `traces.model`."""
        stages = range(self.first_stage[row], self.first_stage[row + 1])
        return Job(
            self.job_name[row],
            tuple(self._stage(stage) for stage in stages),
            _or_none(self.arrival_ms[row]),
            float(self.weight[row]),
            _or_none(self.deadline_ms[row]),
        )

    def _stage(self, row: int) -> Stage:
        start = self.parents.start
        levels = range(self.first_level[row], self.first_level[row + 1])
        return Stage(
            self.stage_name[row],
            int(self.num_tasks[row]),
            tuple(self.parents.values[start[row] : start[row + 1]].tolist()),
            tuple(self._level(level) for level in levels),
            _or_none(self.cpu[row]),
            _or_none(self.memory_mb[row]),
            int(self.slots[row]),
            bool(self.barrier[row]),
        )

    def _level(self, row: int) -> LevelDurations:
        fresh, first, rest = (
            wave.values[wave.start[row] : wave.start[row + 1]] for wave in self.waves
        )
        return LevelDurations.of(
            int(self.executors[row]), fresh_ms=fresh, first_ms=first, rest_ms=rest
        )

    # --- sums ------------------------------------------------------------------------------------

    def tasks_of_jobs(self) -> Int64:
        """(J,) tasks of each job."""
        return np.add.reduceat(self.num_tasks, self.first_stage[:-1], dtype=np.int64)

    def wave_sums_ms(self) -> Float64:
        """(L, 3) sum of the durations of each wave in double precision, as `sum` of each list."""
        sums_ms = np.zeros((len(self.executors), len(self.waves)))
        for column, wave in enumerate(self.waves):
            if len(wave.values) > 0:
                values = np.append(wave.values.astype(np.float64), 0.0)
                sums = np.where(wave.counts > 0, np.add.reduceat(values, wave.start[:-1]), 0.0)
                for row in np.flatnonzero(wave.counts >= _SHORT).tolist():
                    long = wave.values[wave.start[row] : wave.start[row + 1]]
                    sums[row] = long.sum(dtype=np.float64)
                sums_ms[:, column] = sums
        return sums_ms

    def mean_ms(self, wave_sums_ms: Float64 | None = None) -> Float64:
        """(S,) `Stage.mean_ms`: over all measured tasks; from `wave_sums_ms()` if known."""
        sums_ms = self.wave_sums_ms() if wave_sums_ms is None else wave_sums_ms
        means_ms = in_turn(sums_ms, self.first_level)
        counts = np.asarray(sum(wave.counts for wave in self.waves))
        means_ms /= np.add.reduceat(counts, self.first_level[:-1], dtype=np.int64)
        return means_ms

    def work_ms(self) -> Float64:
        """(J,) executor-milliseconds of each job (`Job.work_ms`)."""
        lowest = self.first_level[:-1]
        sums_ms, counts = self.wave_sums_ms()[lowest], sum(wave.counts for wave in self.waves)
        level_ms = (sums_ms[:, 0] + sums_ms[:, 1] + sums_ms[:, 2]) / np.asarray(counts)[lowest]
        return in_turn((self.num_tasks * level_ms * self.slots)[:, None], self.first_stage)


def _or_none(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


_SHORT = 8  # lists of fewer numbers are added in the same order by all of numpy's sums


def in_turn(values: Float64, first: Integers) -> Float64:
    """(K,) sums of runs of rows (N, C) from `first` (K + 1,), added one by one as a loop would."""
    counts = np.diff(first)
    sums = np.zeros(len(counts))
    pending = np.flatnonzero(counts > 0)
    place = 0
    while len(pending):
        for column in range(values.shape[1]):
            sums[pending] += values[first[pending] + place, column]
        place += 1
        pending = pending[counts[pending] > place]
    return sums


class StoredJobs(Sequence[Job]):
    """The jobs of columns that keep every rule; each is made when it is first asked for."""

    def __reduce__(self) -> tuple[type[StoredJobs], tuple[Columns]]:
        """Travel to other processes without the jobs that were made."""
        return StoredJobs, (self.columns,)

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._made: dict[int, Job] = {}

    def __len__(self) -> int:
        return self.columns.num_jobs

    @overload
    def __getitem__(self, index: int) -> Job: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Job, ...]: ...

    def __getitem__(self, index: int | slice) -> Job | tuple[Job, ...]:
        if isinstance(index, slice):
            return tuple(self[row] for row in range(*index.indices(len(self))))
        row = range(len(self))[index]
        if row not in self._made:
            self._made[row] = self.columns.job(row)
        return self._made[row]

    def __iter__(self) -> Iterator[Job]:
        return (self[row] for row in range(len(self)))


def columns_of(jobs: Sequence[Job]) -> Columns:
    if isinstance(jobs, StoredJobs):
        return jobs.columns
    stages = [stage for job in jobs for stage in job.stages]
    levels = [level for stage in stages for level in stage.durations]
    return Columns(
        names_of([job.name for job in jobs]),
        _floats([job.arrival_ms for job in jobs]),
        _floats([job.weight for job in jobs]),
        _floats([job.deadline_ms for job in jobs]),
        starts([len(job.stages) for job in jobs]),
        names_of([stage.name for stage in stages]),
        np.array([stage.num_tasks for stage in stages], np.int64),
        Rows(
            starts([len(stage.parents) for stage in stages]),
            np.array([parent for stage in stages for parent in stage.parents], np.int32),
        ),
        _floats([stage.cpu for stage in stages]),
        _floats([stage.memory_mb for stage in stages]),
        np.array([stage.slots for stage in stages], np.int64),
        np.array([stage.barrier for stage in stages], np.bool_),
        starts([len(stage.durations) for stage in stages]),
        np.array([level.executors for level in levels], np.int64),
        (
            wave_of([level.fresh_ms for level in levels]),
            wave_of([level.first_ms for level in levels]),
            wave_of([level.rest_ms for level in levels]),
        ),
    )


def names_of(names: Sequence[str]) -> Names:
    row: dict[str, int] = {}
    index = np.array([row.setdefault(name, len(row)) for name in names], np.int64)
    return Names(index, tuple(row))


def _floats(values: Sequence[float | None]) -> Float64:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def starts(lengths: Sequence[int] | NDArray[np.integer[Any]]) -> Int64:
    """(K + 1,) where each of K runs begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def wave_of(samples: Sequence[FloatArray]) -> Rows:
    """Return the column of one wave's durations, level by level."""
    empty = np.empty(0, np.float32)
    return Rows(starts([len(values) for values in samples]), np.concatenate([empty, *samples]))


_OF_JOBS = ("job_name", "arrival_ms", "weight", "deadline_ms")
_OF_STAGES = ("stage_name", "num_tasks", "parents", "cpu", "memory_mb", "slots", "barrier")
_OF_LEVELS = ("executors", "waves")


def part_of(columns: Columns, first: int, last: int) -> Columns:
    """Return the columns of the jobs from row `first` up to but not including `last`."""
    begin, end = columns.first_stage[first], columns.first_stage[last]
    low, high = columns.first_level[begin], columns.first_level[end]
    spans = {
        **dict.fromkeys(_OF_JOBS, (first, last)),
        **dict.fromkeys(_OF_STAGES, (begin, end)),
        **dict.fromkeys(_OF_LEVELS, (low, high)),
    }
    return columns._replace(
        first_stage=columns.first_stage[first : last + 1] - begin,
        first_level=columns.first_level[begin : end + 1] - low,
        **{name: _rows_of(getattr(columns, name), *span) for name, span in spans.items()},
    )


def _rows_of(column: Any, first: int, last: int) -> Any:
    """Return the rows from `first` up to but not including `last` of a column of any kind."""
    if isinstance(column, Names):
        return replace(column, index=column.index[first:last])
    if isinstance(column, Rows):
        start = column.start[first : last + 1]
        return Rows(start - start[0], column.values[start[0] : start[-1]])
    if isinstance(column, tuple):
        return tuple(_rows_of(wave, first, last) for wave in column)
    return column[first:last]


def joined(parts: Sequence[Columns]) -> Columns:
    """Return the columns of several traces, one after the other; of none, those of no job."""
    if not parts:
        return columns_of([])
    columns = {name: [getattr(part, name) for part in parts] for name in Columns._fields}
    first_stage, first_level = (
        starts(np.concatenate([np.diff(first) for first in columns.pop(name)]))
        for name in ("first_stage", "first_level")
    )
    joined_columns = {name: _joined(column) for name, column in columns.items()}
    return Columns(first_stage=first_stage, first_level=first_level, **joined_columns)


def _joined(parts: Sequence[Any]) -> Any:
    """Return several columns of any kind, one after the other."""
    if isinstance(parts[0], Names):
        return names_of([name for names in parts for name in names.listed()])
    if isinstance(parts[0], Rows):
        counts = np.concatenate([rows.counts for rows in parts])
        return Rows(starts(counts), np.concatenate([rows.values for rows in parts]))
    if isinstance(parts[0], tuple):
        return tuple(map(_joined, zip(*parts, strict=True)))
    return np.concatenate(parts)


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
    arrival_ms = columns.arrival_ms
    bad |= ~(np.isnan(arrival_ms) | ((arrival_ms >= 0.0) & (arrival_ms <= MAX_TIME_MS)))
    bad |= ~((columns.weight > 0) & np.isfinite(columns.weight))
    bad |= (columns.deadline_ms <= 0) | (columns.deadline_ms > MAX_TIME_MS)
    bad[_repeated(job_of, columns.stage_name.index)] = True
    if bad_stages.any():
        return bad  # the rest reads what is wrong already
    bad |= ~(columns.work_ms() <= MAX_TIME_MS)
    is_left = _longest_paths(columns, children_of(columns), np.zeros(len(job_of)))[1]
    bad[job_of[is_left]] = True
    return bad


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
