"""Fewer samples with the same mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from traces.errors import TraceError
from traces.model import FloatArray, Job, LevelDurations


def thinned(job: Job, most: int) -> Job:
    """`job` with about `most` samples in each level of a stage that has more.

    Each wave keeps the same fraction, at least one sample, so that waves keep their weights in the
    means over all samples, up to the rounding of that fraction to whole samples.
    """
    if most < 1:
        raise TraceError(f"samples {most}: a stage keeps at least 1")
    return replace(
        job,
        stages=tuple(
            replace(stage, durations=tuple(_level(level, most) for level in stage.durations))
            for stage in job.stages
        ),
    )


def _level(level: LevelDurations, most: int) -> LevelDurations:
    fraction = most / sum(len(wave) for wave in level.waves)
    if fraction >= 1:
        return level
    waves = (quantile_means(wave, max(1, round(fraction * len(wave)))) for wave in level.waves)
    return LevelDurations(level.executors, *waves)


def quantile_means(values: FloatArray, most: int) -> FloatArray:
    """(N,) durations as (min(N, most),) ascending ones of the same mean.

    The sorted values are cut into `most` equal shares, each standing for its mean:

    .. math:: y_k = m \\int_{k/m}^{(k+1)/m} Q(u) \\, du

    with Q the quantile function of `values`. Few values are returned as they are.
    """
    ordered = np.sort(values)
    if len(values) > most:
        # A share may begin inside a value, so shares are differences of the running sum.
        running = np.concatenate([[0.0], np.cumsum(ordered, dtype=np.float64)])
        edges = np.linspace(0.0, len(values), most + 1)
        shares = np.diff(np.interp(edges, np.arange(len(running)), running))
        ordered = (shares * most / len(values)).astype(np.float32)
    ordered.flags.writeable = False
    return ordered
