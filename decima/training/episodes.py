"""Which sequences an iteration plays, and which are kept for validation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decima.training.config import TrainConfig, WorkloadConfig
from rl.schedules import Curriculum
from spark_sim import Streams
from spark_sim.vector import Run
from traces import Trace
from traces import arrivals as patterns
from traces.numbers import MS_PER_S, Float64

FIRST_VALIDATION_SEQUENCE = 2_000_000
FIRST_EPISODE = 3_000_000
"""`decima evaluate` draws sequences from 0, `decima tune` and `fit-rule` from 1,000,000"""

_LENGTH_STREAM = 7
_PICK_STREAM = 8


@dataclass(frozen=True)
class Setting:
    """Continuous arrivals with a mean gap, or so many jobs at once."""

    interarrival_s: float | None
    batch_jobs: int | None

    @property
    def label(self) -> str:
        """For metrics and tables."""
        if self.batch_jobs is not None:
            return f"batch_{self.batch_jobs}"
        return f"gap_{self.interarrival_s:g}s"


def settings_of(workload: WorkloadConfig) -> tuple[Setting, ...]:
    """All settings, in the order of the configuration."""
    gaps = (Setting(gap, None) for gap in workload.interarrival_s)
    batches = (Setting(None, jobs) for jobs in workload.batch_jobs)
    return (*gaps, *batches)


@dataclass(frozen=True, eq=False)
class Episode:
    """One arrival sequence, and when it ends."""

    setting: Setting
    number: int
    run: Run


class EpisodeSource:
    """All episodes of a training, each a pure function of the configuration and its number."""

    def __init__(self, config: TrainConfig, trace: Trace) -> None:
        self._config = config
        self._trace = trace
        episodes = config.episodes
        self._curriculum = Curriculum(
            episodes.start_s, episodes.end_s, episodes.growth_iterations, "geometric"
        )
        self.settings = settings_of(config.workload)

    def of_iteration(self, iteration: int, shares: Float64) -> list[Episode]:
        """The sequences of an iteration.

        Args:
            iteration: from 0.
            shares: how often each setting comes; used where `episodes.pick` is "gap", else the
                settings take turns.
        """
        count = self._config.episodes.sequences
        picked = (iteration * count + np.arange(count)) % len(self.settings)
        if self._config.episodes.pick == "gap":
            seeds = np.random.SeedSequence(self._config.seed, spawn_key=(iteration, _PICK_STREAM))
            picked = np.random.default_rng(seeds).choice(len(self.settings), count, p=shares)
        found: list[Episode] = []
        for index in range(count):
            number = FIRST_EPISODE + iteration * count + index
            setting = self.settings[picked[index]]
            found.append(self._episode(setting, number, self._length_s(iteration, number)))
        return found

    def for_validation(self, setting: Setting) -> list[Episode]:
        """The held-back sequences of a setting, each played until every job is complete."""
        return [
            self._episode(setting, FIRST_VALIDATION_SEQUENCE + number, None)
            for number in range(self._config.validation.sequences)
        ]

    def _length_s(self, iteration: int, number: int) -> float:
        seeds = np.random.SeedSequence(self._config.seed, spawn_key=(number, _LENGTH_STREAM))
        length_s = self._curriculum.draw(np.random.default_rng(seeds), iteration)
        mean_s = self._curriculum.mean_s(iteration)
        return min(length_s, self._config.episodes.longest * mean_s)

    def _episode(self, setting: Setting, number: int, length_s: float | None) -> Episode:
        streams = Streams(self._config.seed, number)
        rng = streams.arrivals()
        key = streams.duration_key()
        if setting.batch_jobs is not None:
            drawn = patterns.batch(self._trace, setting.batch_jobs, rng)
            return Episode(setting, number, Run(drawn.arrival_ms, drawn.job, key))
        assert setting.interarrival_s is not None  # noqa: S101 - a setting is one or the other
        gap_ms = setting.interarrival_s * MS_PER_S
        if length_s is None:
            jobs = self._config.validation.jobs
            drawn = patterns.poisson(self._trace, jobs, gap_ms, rng)
            return Episode(setting, number, Run(drawn.arrival_ms, drawn.job, key))
        return Episode(setting, number, self._arrivals(rng, gap_ms, length_s * MS_PER_S, key))

    def _arrivals(self, rng: np.random.Generator, gap_ms: float, end_ms: float, key: int) -> Run:
        """A backlog, arrivals up to `end_ms`, and a run that is cut there or drained."""
        episodes = self._config.episodes
        expected = end_ms / gap_ms
        drawn = patterns.poisson(
            self._trace, math.ceil(expected + 6 * math.sqrt(expected) + 6), gap_ms, rng
        )
        end_ms = max(end_ms, float(drawn.arrival_ms[0]) + gap_ms)
        before: NDArray[np.bool_] = drawn.arrival_ms < end_ms
        backlog = int(rng.integers(episodes.backlog + 1)) if episodes.backlog else 0
        there = rng.integers(len(self._trace.jobs), size=backlog).astype(drawn.job.dtype)
        return Run(
            np.concatenate([np.zeros(backlog), drawn.arrival_ms[before]]),
            np.concatenate([there, drawn.job[before]]),
            key,
            end_ms if episodes.ends == "cut" else None,
        )
