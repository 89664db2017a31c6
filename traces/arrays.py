"""A trace as flat arrays, for the compiled simulator.

Rows are *templates*: the simulator runs many instances of one job, all pointing here. Jobs, stages,
levels and samples are stored in compressed rows (CSR): the children of stage ``s`` are
``children[first_child[s]:first_child[s + 1]]``, its levels are rows
``first_level[s]:first_level[s + 1]`` of `level_executors`, and so on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.model import LevelDurations, Trace
from traces.numbers import Int64

Int32 = NDArray[np.int32]

FRESH, FIRST, REST = range(3)
"""columns of `wave_start`, `wave_count` and `wave_mean_ms`: the order of `traces.model.WAVES`"""


class TraceArrays(NamedTuple):
    """J jobs, S stages, E edges, L (stage, level) pairs, M samples.

    Waves without measurements are resolved here, so the simulator only looks up: a missing ``rest``
    wave takes the samples of ``first``, a missing ``first`` those of ``fresh`` (else of ``rest``),
    a missing ``fresh`` those of ``first`` (else of ``rest``) with the warm-up delay added.
    """

    first_stage: Int32  # (J + 1,)
    num_tasks: Int32  # (S,)
    mean_ms: NDArray[np.float64]  # (S,) mean of all samples: decima-sim's "rough duration"
    critical_path_ms: NDArray[np.float64]  # (S,) from the stage's start to the job's end
    num_parents: Int32  # (S,)
    cpu: NDArray[np.float64]  # (S,) cores that a task needs; NaN where the trace lacks it
    memory_mb: NDArray[np.float64]  # (S,) likewise
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
    stages = [stage for job in trace.jobs for stage in job.stages]
    children = [row for job in trace.jobs for row in job.children]
    levels = [level for stage in stages for level in stage.durations]
    starts, counts, means, samples = _flatten_waves(levels)
    return TraceArrays(
        first_stage=_offsets([len(job.stages) for job in trace.jobs]),
        num_tasks=np.array([stage.num_tasks for stage in stages], np.int32),
        mean_ms=np.array([stage.mean_ms for stage in stages], np.float64),
        critical_path_ms=np.array([c for job in trace.jobs for c in job.critical_path_ms]),
        num_parents=np.array([len(stage.parents) for stage in stages], np.int32),
        cpu=np.array([np.nan if stage.cpu is None else stage.cpu for stage in stages]),
        memory_mb=np.array(
            [np.nan if stage.memory_mb is None else stage.memory_mb for stage in stages]
        ),
        first_child=_offsets([len(row) for row in children]),
        children=np.array([child for row in children for child in row], np.int32),
        first_level=_offsets([len(stage.durations) for stage in stages]),
        level_executors=np.array([level.executors for level in levels], np.int32),
        wave_start=starts,
        wave_count=counts,
        wave_mean_ms=means,
        fresh_is_measured=np.array([len(level.fresh_ms) > 0 for level in levels], np.bool_),
        samples_ms=samples,
    )


def _offsets(lengths: list[int]) -> Int32:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def _sources(level: LevelDurations) -> tuple[int, int, int]:
    """Return, for each wave, the wave whose samples replace it if it is empty."""
    measured = [len(values) > 0 for values in level.waves]
    fallback = ((FRESH, FIRST, REST), (FIRST, FRESH, REST), (REST, FIRST, FRESH))
    fresh, first, rest = (next(w for w in order if measured[w]) for order in fallback)
    return fresh, first, rest


def _flatten_waves(
    levels: list[LevelDurations],
) -> tuple[Int64, Int32, NDArray[np.float64], NDArray[np.float32]]:
    starts = np.zeros((len(levels), 3), np.int64)
    counts = np.zeros((len(levels), 3), np.int32)
    means = np.zeros((len(levels), 3), np.float64)
    pieces: list[NDArray[np.float32]] = []
    end = 0
    for row, level in enumerate(levels):
        begin = [0, 0, 0]
        for wave, values in enumerate(level.waves):
            begin[wave] = end
            end += len(values)
            # Ascending, so that one random number is the same quantile in every wave and level:
            # two policies that run a task at different levels still draw "the same" task.
            pieces.append(np.sort(values))
        for wave, source in enumerate(_sources(level)):
            starts[row, wave] = begin[source]
            counts[row, wave] = len(level.waves[source])
            means[row, wave] = level.waves[source].mean(dtype=np.float64)
    return starts, counts, means, np.concatenate(pieces)
