"""Choice of the sequences for each iteration and for validation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import Workload
from decima.objectives import Objective
from decima.registry import Heuristic
from decima.training.config import MOST_EPISODES, TrainConfig
from spark_sim import Simulator, Streams
from spark_sim.cluster import parse_classes
from spark_sim.metrics import measure
from spark_sim.tables import State
from spark_sim.vector import Run
from traces import arrivals as patterns
from traces.arrays import TraceArrays
from traces.numbers import MS_PER_S, Int64

FIRST_VALIDATION_SEQUENCE = 2_000_000
FIRST_TEACHER_SEQUENCE = 2_500_000
FIRST_EPISODE = 3_000_000
FIRST_EVOLVING_SEQUENCE = 10**12
"""first numbers of a training's sequences; `decima evaluate` draws them from 0, `decima tune` and
`fit-rule` from 1,000,000"""

_LENGTH_STREAM = 7
_CENTRED_STREAM = 15


@dataclass(frozen=True, eq=False)
class Setting:
    """A cluster and what arrives there."""

    number: int
    config: EvaluationConfig

    @property
    def label(self) -> str:
        """Label of the setting in metrics and tables."""
        config = self.config
        arriving = f"batch_{config.jobs}" if self.is_batch else f"gap_{config.interarrival_s:.3g}s"
        place = "slots" if config.protocol == "session" else "executors"
        if config.classes is not None:
            place += f"_of_{len(parse_classes(config.classes))}_sizes"
        return f"{self.number}.{Path(config.trace).stem}.{config.executors}_{place}.{arriving}"

    @property
    def is_batch(self) -> bool:
        """True if all jobs are there at once."""
        return self.config.arrivals == "batch"


@dataclass(frozen=True, eq=False)
class Episode:
    """One arrival sequence, and when it ends."""

    setting: Setting
    number: int
    run: Run


def mean_jobs(config: TrainConfig, iteration: int) -> float:
    """Mean number of arrivals in an episode, which grows geometrically in the step `reinforce`.

    Early episodes are short, as a policy that knows nothing lets the queue grow without bound and
    late states of such episodes teach little. Source: Decima (SIGCOMM 2019), section 5.3. The paper
    lets the number of jobs grow with it. In the released code the flags for that
    (`num_stream_dags_grow`, `num_stream_dags_max`) are never read; only the chance of an end falls
    there (mean 2,000 s to 20,000 s over 1,125 iterations).
    """
    step, number = config.step_at(iteration)
    episodes = config.episodes
    grown = number if step is config.reinforce else 0
    share = min(grown / episodes.growth_iterations, 1.0)
    return float(episodes.start_jobs * (episodes.end_jobs / episodes.start_jobs) ** share)


Groups = Mapping[tuple[int, int], range]
"""neighbours of one setting, which are played side by side: (shard, number in it) -> episodes"""


class EpisodeSource:
    """All episodes of a training, each a pure function of the configuration and its number.

    Those of an iteration, and those for validation, count from 0. They are split into the shards of
    the configuration and there into groups of one setting. Lockstep and the order of sums depend
    only on that split, never on processes.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self.settings = tuple(
            Setting(number, replace(setting, seed=config.seed, objective=config.objective))
            for number, setting in enumerate(config.workload.evaluations())
        )
        self._at_once = min(config.episodes.settings, len(self.settings))
        self._workloads: dict[tuple[str | int | None, ...], Workload] = {}
        for setting in self.settings:
            key = setting.config.workload_key()
            if key not in self._workloads:
                self._workloads[key] = Workload.of(setting.config)

    def workload(self, setting: Setting) -> Workload:
        """The jobs of a setting."""
        return self._workloads[setting.config.workload_key()]

    def groups_of_iteration(self, iteration: int) -> Groups:
        """Return the groups of an iteration, those with the most jobs first, to finish together."""
        played = self.of_iteration(iteration)
        groups = self._groups([episode.setting.number for episode in played])
        jobs = [len(episode.run.arrival_ms) for episode in played]
        first = sorted(groups, key=lambda key: -sum(jobs[index] for index in groups[key]))
        return {key: groups[key] for key in first}

    def of_iteration(self, iteration: int, indices: range | None = None) -> list[Episode]:
        """The sequences of an iteration, from 0; None: all."""
        step, _ = self._config.step_at(iteration)
        count = self._at_once * step.sequences
        mean = mean_jobs(self._config, iteration)
        episodes: list[Episode] = []
        for index in range(count) if indices is None else indices:
            number = FIRST_EPISODE + iteration * MOST_EPISODES + index
            turn = iteration * self._at_once + index // step.sequences
            setting = self.settings[turn % len(self.settings)]
            if setting.is_batch:
                episodes.append(self._whole(setting, number, setting.config.jobs))
            else:
                episodes.append(self._arriving(setting, number, mean))
        return episodes

    def groups_for_validation(self) -> Groups:
        """Return the groups of a validation."""
        each = self._config.validation.sequences
        return self._groups([index // each for index in range(len(self.settings) * each)])

    def for_validation(self, indices: range | None = None) -> list[Episode]:
        """The held-out sequences of all settings, each played until every job is complete."""
        each = self._config.validation.sequences
        return [
            self._whole(
                self.settings[index // each],
                FIRST_VALIDATION_SEQUENCE + index % each,
                self._config.validation.jobs,
            )
            for index in (range(len(self.settings) * each) if indices is None else indices)
        ]

    def evolving_settings(self, iteration: int) -> Int64:
        """(K,) number of the setting of each pair in an iteration of `evolve`; they take turns."""
        pairs = self._config.evolve.pairs
        return (iteration * pairs + np.arange(pairs)) % len(self.settings)

    def centred_pairs(self, iteration: int) -> frozenset[int]:
        """Pairs whose sequences are played without a perturbation, too: a fourth, drawn."""
        pairs = self._config.evolve.pairs
        seeds = np.random.SeedSequence(self._config.seed, spawn_key=(iteration, _CENTRED_STREAM))
        drawn = np.random.default_rng(seeds).permutation(pairs)[: max(1, pairs // 4)]
        return frozenset(drawn.tolist())

    def for_evolving(self, iteration: int, pair: int) -> list[Episode]:
        """The sequences of a pair of perturbations, each played to its end."""
        evolve = self._config.evolve
        setting = self.settings[self.evolving_settings(iteration)[pair]]
        first = FIRST_EVOLVING_SEQUENCE + (iteration * evolve.pairs + pair) * evolve.sequences
        numbers = range(first, first + evolve.sequences)
        return [self._whole(setting, number, evolve.jobs) for number in numbers]

    def for_choosing_teachers(self, setting: Setting, count: int) -> list[Episode]:
        """Sequences of a setting on which its teacher is chosen, each played to its end."""
        jobs = self._config.validation.jobs
        return [
            self._whole(setting, FIRST_TEACHER_SEQUENCE + index, jobs) for index in range(count)
        ]

    def _groups(self, setting_of: Sequence[int]) -> Groups:
        """Neighbours of one setting in each shard: side by side they take a third less time."""
        count, shards = len(setting_of), self._config.episodes.shards
        groups: dict[tuple[int, int], range] = {}
        for shard in range(shards):
            part = range(count * shard // shards, count * (shard + 1) // shards)
            for number, (_, members) in enumerate(groupby(part, key=setting_of.__getitem__)):
                indices = list(members)
                groups[shard, number] = range(indices[0], indices[-1] + 1)
        return groups

    def _whole(self, setting: Setting, number: int, jobs: int) -> Episode:
        """A batch, or so many jobs that arrive one by one, played until every job is complete."""
        streams = Streams(self._config.seed, number)
        trace, rng = self.workload(setting).trace, streams.arrivals()
        if setting.is_batch:
            drawn = patterns.batch(trace, setting.config.jobs, rng)
        else:
            gap_ms = setting.config.interarrival_s * MS_PER_S
            drawn = patterns.ARRIVALS[setting.config.arrivals](trace, jobs, gap_ms, rng)
        run = Run(drawn.arrival_ms, drawn.job, streams.duration_key())
        return Episode(setting, number, run)

    def _arriving(self, setting: Setting, number: int, mean: float) -> Episode:
        """A backlog, arrivals for a drawn number of mean gaps, then a cut or a drain.

        The number is exponential: at no moment does the time already passed show how much is left.
        With a fixed, predictable end a policy learns to push work past it.
        """
        episodes, seed = self._config.episodes, self._config.seed
        seeds = np.random.SeedSequence(seed, spawn_key=(number, _LENGTH_STREAM))
        length = float(np.random.default_rng(seeds).exponential(mean))
        length = min(length, episodes.longest * mean)
        streams = Streams(seed, number)
        trace, rng = self.workload(setting).trace, streams.arrivals()
        gap_ms = setting.config.interarrival_s * MS_PER_S
        count = math.ceil(length + 6 * math.sqrt(length) + 6)
        drawn = patterns.ARRIVALS[setting.config.arrivals](trace, count, gap_ms, rng)
        end_ms = max(max(length, 1.0) * gap_ms, float(drawn.arrival_ms[0]) + gap_ms)
        before: NDArray[np.bool_] = drawn.arrival_ms < end_ms
        backlog = int(rng.integers(episodes.backlog + 1)) if episodes.backlog else 0
        jobs = rng.integers(len(trace.jobs), size=backlog).astype(drawn.job.dtype)
        run = Run(
            np.concatenate([np.zeros(backlog), drawn.arrival_ms[before]]),
            np.concatenate([jobs, drawn.job[before]]),
            streams.duration_key(),
            end_ms if episodes.ends == "cut" else None,
        )
        return Episode(setting, number, run)


def played(episode: Episode, arrays: TraceArrays, heuristic: Heuristic) -> State:
    """The tables of an episode at its end, under a heuristic."""
    run = episode.run
    cluster = episode.setting.config.cluster()
    if run.time_limit_ms is not None:
        cluster = replace(cluster, time_limit_ms=run.time_limit_ms)
    simulator = Simulator(arrays, cluster, run.arrival_ms, run.job, duration_key=run.duration_key)
    heuristic.play(simulator)
    return simulator.state


def figures(
    episodes: Sequence[Episode], arrays: TraceArrays, heuristic: str, objective: Objective
) -> list[float]:
    """Objective of each episode of one setting under a heuristic."""
    policy = Heuristic(heuristic)
    return [objective.of(measure(played(episode, arrays, policy))) for episode in episodes]
