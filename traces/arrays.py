"""A trace as flat arrays, for the compiled simulator.

Rows are *templates*: the simulator runs many instances of one job, all pointing here. Jobs, stages,
levels and samples are stored in compressed rows (CSR): the children of stage ``s`` are
``children[first_child[s]:first_child[s + 1]]``, its levels are rows
``first_level[s]:first_level[s + 1]`` of `level_executors`, and so on.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from traces.columns import Columns, children_of, critical_paths_ms, starts
from traces.numbers import Int32, Int64
from traces.trace import Trace

Number = TypeVar("Number", bound=np.generic)

FRESH, FIRST, REST = range(3)
"""columns of `wave_start`, `wave_count` and `wave_mean_ms`: the order of `traces.model.WAVES`"""


class TraceArrays(NamedTuple):
    """J jobs, S stages, E edges, L (stage, level) pairs, M samples.

    Waves without measurements are resolved here, so the simulator only looks up: a missing ``rest``
    wave takes the samples of ``first``, a missing ``first`` those of ``fresh`` (else of ``rest``),
    a missing ``fresh`` those of ``first`` (else of ``rest``) with the warm-up delay added.
    """

    weight: NDArray[np.float64]  # (J,)
    deadline_ms: NDArray[np.float64]  # (J,) after the arrival; infinite where there is none
    first_stage: Int32  # (J + 1,)
    num_tasks: Int32  # (S,)
    mean_ms: NDArray[np.float64]  # (S,) mean of all samples: decima-sim's "rough duration"
    critical_path_ms: NDArray[np.float64]  # (S,) from the stage's start to the job's end
    num_parents: Int32  # (S,)
    cpu: NDArray[np.float64]  # (S,) cores that a task needs; NaN where the trace lacks it
    memory_mb: NDArray[np.float64]  # (S,) likewise
    slots: Int32  # (S,) that each task takes
    barrier: NDArray[np.bool_]  # (S,) whether all tasks start at once
    first_child: Int32  # (S + 1,)
    children: Int32  # (E,) stage index inside the job
    first_level: Int32  # (S + 1,)
    level_executors: Int32  # (L,)
    wave_start: Int64  # (L, 3) first sample in `samples_ms`
    wave_count: Int32  # (L, 3) number of samples, >= 1
    wave_mean_ms: NDArray[np.float64]  # (L, 3) without the warm-up delay
    fresh_is_measured: NDArray[np.bool_]  # (L,) else a fresh task costs the warm-up delay on top
    samples_ms: NDArray[np.float32]  # (M,) each wave ascending

    @property
    def num_jobs(self) -> int:
        return len(self.first_stage) - 1


def to_arrays(trace: Trace) -> TraceArrays:
    """Flatten `trace`; the rows keep the order of `trace.jobs` and of each job's stages."""
    columns = trace.columns
    counts = np.empty((len(columns.executors), len(columns.waves)), np.int32)
    for index, wave in enumerate(columns.waves):
        counts[:, index] = wave.counts
    # What takes most memory first, while there is little else.
    start, samples_ms = _samples(columns, counts)
    sums_ms = columns.wave_sums_ms()
    mean_ms = columns.mean_ms(sums_ms)
    sums_ms /= np.maximum(counts, 1)
    wave_mean_ms = _resolved(sums_ms, counts)
    del sums_ms
    children = children_of(columns)
    first_of = columns.first_stage[columns.job_of_stage]
    return TraceArrays(
        weight=columns.weight.copy(),
        deadline_ms=np.where(np.isnan(columns.deadline_ms), np.inf, columns.deadline_ms),
        first_stage=columns.first_stage.astype(np.int32),
        num_tasks=columns.num_tasks.astype(np.int32),
        mean_ms=mean_ms,
        critical_path_ms=critical_paths_ms(columns, children, mean_ms),
        num_parents=columns.parents.counts.astype(np.int32),
        cpu=columns.cpu.copy(),
        memory_mb=columns.memory_mb.copy(),
        slots=columns.slots.astype(np.int32),
        barrier=columns.barrier.copy(),
        first_child=children.start.astype(np.int32),
        children=(children.values - first_of[children.owner()]).astype(np.int32),
        first_level=columns.first_level.astype(np.int32),
        level_executors=columns.executors.astype(np.int32),
        wave_start=start,
        wave_count=_resolved(counts, counts),
        wave_mean_ms=wave_mean_ms,
        fresh_is_measured=counts[:, FRESH] > 0,
        samples_ms=samples_ms,
    )


_FALLBACK = ((FRESH, FIRST, REST), (FIRST, FRESH, REST), (REST, FIRST, FRESH))
"""for each wave, the waves whose samples it takes, the first that has any"""


def _resolved(table: NDArray[Number], counts: Int32) -> NDArray[Number]:
    """(L, 3) the table's value for the wave that replaces each one, if it is empty."""
    resolved = np.empty_like(table)
    for wave, (first, second, third) in enumerate(_FALLBACK):
        resolved[:, wave] = table[:, third]
        for source in (second, first):
            np.copyto(resolved[:, wave], table[:, source], where=counts[:, source] > 0)
    return resolved


def _samples(columns: Columns, counts: Int32) -> tuple[Int64, NDArray[np.float32]]:
    """(L, 3) first sample of each resolved wave, and (M,) all samples.

    Each wave ascends, so that one random number is the same quantile in every wave and level: two
    policies that run a task at different levels still draw "the same" task.
    """
    # The waves of a level lie side by side.
    start = starts(counts.reshape(-1))[:-1].reshape(counts.shape)
    samples = np.empty(sum(len(rows.values) for rows in columns.waves), np.float32)
    for wave, rows in enumerate(columns.waves):
        if len(rows.values) > 0:
            place = np.repeat(start[:, wave] - rows.start[:-1], rows.counts)
            place += np.arange(len(place))
            samples[place] = rows.values
    flat = start.reshape(-1)
    falls = np.flatnonzero(np.diff(samples) < 0)
    # Of empty waves, which begin where another does, the last is the one with samples.
    wave_of, next_wave = (np.searchsorted(flat, falls + k, side="right") - 1 for k in (0, 1))
    for index in np.unique(wave_of[wave_of == next_wave]):
        end = flat[index + 1] if index + 1 < len(flat) else len(samples)
        samples[flat[index] : end].sort()
    return _resolved(start, counts), samples
