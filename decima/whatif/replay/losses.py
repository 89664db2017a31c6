"""What failed attempts and stragglers cost: the recorded jobs, replayed without them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import WorkerPool
from decima.rl.statistics import Estimate, difference_percent, mean_of
from decima.whatif.replay.check import ReplayReport, ReplaySettings, simulated
from decima.whatif.replay.recording import Recording
from decima.whatif.replay.report import can_be_trusted
from decima.whatif.text import percent, seconds
from traces import Job, LevelDurations, Stage
from traces.numbers import Float64


@dataclass(frozen=True, eq=False)
class Losses:
    """Average JCT over all jobs in each draw, (draws,) seconds, slots and arrivals as recorded."""

    as_recorded_s: Float64
    without_failures_s: Float64 | None
    """with one attempt at each task, the first that succeeded; None where all tasks had one"""
    without_stragglers_s: Float64
    """in addition, no task takes longer than the median of its stage"""

    def words(self) -> str:
        failures, stragglers = self._differences()
        if failures is None:
            words = f"No work failed; without stragglers, it would change by {percent(stragglers)}"
        else:
            words = (
                f"Without failed work, it would change by {percent(failures)}; without stragglers "
                f"as well, by {percent(stragglers)}"
            )
        average = seconds(float(self.as_recorded_s.mean()))
        return f"Average JCT of the replay: {average}. {words} (slots and arrivals as recorded)."

    def to_json(self) -> dict[str, Any]:
        failures, stragglers = self._differences()
        return {
            "avg_jct_s": mean_of(self.as_recorded_s).to_json(),
            "without_failures_percent": None if failures is None else failures.to_json(),
            "without_stragglers_percent": stragglers.to_json(),
        }

    def _differences(self) -> tuple[Estimate | None, Estimate]:
        failures_s, base_s = self.without_failures_s, self.as_recorded_s
        return (
            None if failures_s is None else difference_percent(failures_s, base_s),
            difference_percent(self.without_stragglers_s, base_s),
        )


def losses(check: ReplayReport, settings: ReplaySettings, pool: WorkerPool = HERE) -> Losses | None:
    """Replay the jobs of `check` without failed attempts, and without stragglers as well.

    None where the replay is not to be trusted, or the log's attempts are not known.
    """
    recording = check.recording
    if not can_be_trusted(check) or not recording.clean_jobs:
        return None
    clean_jobs = recording.clean_jobs
    had_failures = any(
        clean.stages is not job.stages
        for clean, job in zip(clean_jobs, recording.trace.jobs, strict=True)
    )
    even_jobs = tuple(map(without_stragglers, clean_jobs))
    return Losses(
        _avg_s(recording, settings, pool),
        _avg_s(recording.with_jobs(clean_jobs), settings, pool) if had_failures else None,
        _avg_s(recording.with_jobs(even_jobs), settings, pool),
    )


def without_stragglers(job: Job) -> Job:
    """Return the job with no task longer than the median of its stage."""
    return replace(job, stages=tuple(map(_capped, job.stages)))


def _capped(stage: Stage) -> Stage:
    level = stage.durations[0]
    durations_ms = np.concatenate(level.waves)
    capped_ms = np.minimum(durations_ms, np.median(durations_ms))
    return replace(stage, durations=(LevelDurations.of(level.executors, rest_ms=capped_ms),))


def _avg_s(recording: Recording, settings: ReplaySettings, pool: WorkerPool) -> Float64:
    averages: Float64 = simulated(recording, settings, pool=pool).jct_s[True].mean(axis=1)
    return averages
