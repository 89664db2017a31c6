"""Running a recording under other policies and on other numbers of executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from decima.policies import networks_of
from decima.policy_names import decides_alone
from decima.registry import HEURISTICS, Parameters
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import K, SentOnce, WorkerPool
from decima.rl.statistics import are_repeats
from decima.training.descent import descend_together, descent, max_scores
from decima.whatif.load import average_slots, varying_slots
from decima.whatif.pool_changes import MOST_POOLS, PoolChange, PoolResult, changes
from decima.whatif.replay import Recording, ReplayWorkload
from decima.whatif.replay.pools import Pools
from decima.whatif.replay.recording import POOLS
from decima.whatif.replay.workload import Course
from decima.whatif.resample import far_apart, resampled
from decima.whatif.settings import WhatIfSettings
from spark_sim import Slots, Streams
from spark_sim.tables import Table
from traces.arrivals import Arrivals
from traces.numbers import Float64

if TYPE_CHECKING:
    from decima.learned import Networks

_RECORDED = 0
_FIRST_EVALUATION = 1
_FIRST_TRAINING = 1_000_000
_FIRST_HELD_BACK = 2_000_000
# Numbers of random streams: tuning and evaluation share none.

_LANES = 32
"""runs of a learned policy in one task: a step of many costs hardly more than one of a few"""
_ALONE = "strict_fair"
# A single job gets every slot under any policy; this one is compiled for every protocol.


@dataclass(frozen=True, eq=False)
class PolicyResult:
    """One policy on one number of executors."""

    recorded_jct_s: Float64
    """(draws, J) with the recorded arrivals, jobs as in the trace"""
    resampled_avg_s: Float64
    """(sequences,) average JCT with resampled arrivals; empty where only the mean is of interest"""
    resampled_p95_s: Float64
    """(sequences,) 95th percentile"""

    @property
    def avg_s(self) -> Float64:
        """(draws,) average JCT with the recorded arrivals."""
        found: Float64 = self.recorded_jct_s.mean(axis=1)
        return found

    @property
    def p95_s(self) -> Float64:
        """(draws,) 95th percentile of JCT with the recorded arrivals."""
        found: Float64 = np.percentile(self.recorded_jct_s, 95, axis=1)
        return found


@dataclass(frozen=True, eq=False)
class SizeResult:
    """All policies on one number of executors."""

    executors: int
    alone_jct_s: Float64
    """(draws, J) JCT of each job if it never met another, in the same draws as of the policies: no
    policy can do better
    """
    tuned: Mapping[str, Parameters]
    policies: Mapping[str, PolicyResult]

    @property
    def alone_s(self) -> Float64:
        """(J,) mean over draws."""
        found: Float64 = self.alone_jct_s.mean(axis=0)
        return found

    @property
    def alone_avg_s(self) -> Float64:
        """(draws,) average over jobs."""
        found: Float64 = self.alone_jct_s.mean(axis=1)
        return found


@dataclass(frozen=True, eq=False)
class WhatIf:
    """Results of all policies at the given number of executors, at half and at twice of it."""

    recording: Recording
    settings: WhatIfSettings
    sizes: Mapping[int, SizeResult]
    driver_times: bool = True
    """whether the driver took the time that was measured"""
    pools: PoolResult | None = None
    """the best change of one pool's settings; None where there are not several pools"""

    @property
    def main(self) -> SizeResult:
        """Result at the given number of executors."""
        return self.sizes[self.settings.executors]

    @property
    def has_repeats(self) -> bool:
        """True if all draws have equal results, so that they count as one."""
        return any(are_repeats(one.avg_s) for one in self.main.policies.values())

    def shared_avg_s(self, executors: int, policy: str | None) -> Float64:
        """(shared draws,) average JCT with the recorded arrivals: what sizes are compared by, since
        tasks take the same time in the same draw.

        Args:
            executors: one of `sizes`.
            policy: None: without other jobs.
        """
        size = self.sizes[executors]
        avg_s = size.alone_avg_s if policy is None else size.policies[policy].avg_s
        return avg_s[: self.settings.shared_draws]


StudyProgress = Callable[[str, int], None]
"""called with what is being done and how many runs were finished since the last call"""


def what_if(
    recording: Recording,
    settings: WhatIfSettings,
    *,
    driver_times: bool = True,
    pool: WorkerPool = HERE,
    progress: StudyProgress | None = None,
) -> WhatIf:
    """Replay `recording` as `settings` ask.

    Policies meet the same arrivals and the same tasks. Parameters are fitted on resampled arrivals
    that no figure is taken from.

    Args:
        recording: the jobs.
        settings: what to compare.
        driver_times: whether the driver takes the time that was measured (`ReplayWorkload.of`).
        pool: workers; the result does not depend on them.
        progress: called after each run.
    """
    shared = _shared(recording, settings, driver_times)
    study = _Study(shared, pool, progress or (lambda *_: None))
    return WhatIf(recording, settings, study.run(), driver_times, study.best_pool_change())


def tasks_of(found: WhatIf, policy: str) -> tuple[Arrivals, Table]:
    """Every task of the first draw of the recorded jobs, on the number of executors asked for.

    Args:
        found: the study.
        policy: one of its policies.

    Returns:
        the arrivals, and a row a task (`Simulator.timeline`), whose `job` is a row of the arrivals.
    """
    settings = found.settings
    shared = _shared(found.recording, settings, found.driver_times)
    tuned = found.main.tuned.get(policy)
    run = _Run(settings.executors, policy, tuned, _Arrivals.RECORDED, 0)
    course, key = _arriving(shared, run)
    cluster = settings.cluster(shared.executors(run))
    simulator = shared.workload.value.played(
        cluster, policy, course, key, tuned, shared.networks.value, timeline=True
    )
    return course.arrivals, simulator.timeline()


def total_runs(settings: WhatIfSettings) -> int:
    """Upper bound of the number of runs of `what_if`."""
    tuning = sum(
        max_scores(name) * settings.training + 2 * settings.held_back for name in settings.tuned
    )
    policies, sizes = len(settings.policies), len(settings.sizes)
    draws = settings.draws + (sizes - 1) * settings.shared_draws
    if settings.reference == POOLS:
        tuning += 3 * MOST_POOLS * settings.training + settings.draws + settings.sequences
    return sizes * tuning + (policies + 1) * draws + policies * settings.sequences


class _Arrivals(Enum):
    """Arrivals of a run."""

    RECORDED = "recorded"
    APART = "apart"
    """the recorded jobs, none of which meets another"""
    RESAMPLED = "resampled"


class _Run(NamedTuple):
    """One simulation: a task."""

    executors: int
    policy: str
    parameters: Parameters | None
    arrivals: _Arrivals
    number: int
    """of the repetition, or of the resampled sequence"""
    pools: Pools | None = None
    """other settings of pools than the recording's"""


class _Shared(NamedTuple):
    """Inputs that all runs share."""

    workload: SentOnce[ReplayWorkload]
    networks: SentOnce[Networks]
    settings: WhatIfSettings
    slots: Slots | None
    """as recorded, where they vary"""
    average: float
    """over the most slots"""

    def executors(self, run: _Run) -> int:
        """The most slots of a run."""
        if run.arrivals is _Arrivals.RESAMPLED:
            return max(1, round(self.average * run.executors))
        return run.executors


def _shared(recording: Recording, settings: WhatIfSettings, driver_times: bool) -> _Shared:
    """Return what all runs of a study share."""
    workload = ReplayWorkload.of(
        recording, driver_times=driver_times, estimates=settings.estimates, seed=settings.seed
    )
    slots = varying_slots(recording) if settings.slots_vary else None
    average = 1.0 if slots is None else average_slots(recording, slots) / slots.most
    networks = networks_of(settings.policies)
    return _Shared(SentOnce(workload), SentOnce(networks), settings, slots, average)


class _Study:
    """The runs of one what-if: a grid of policies, numbers of executors and sequences."""

    def __init__(
        self,
        shared: _Shared,
        pool: WorkerPool,
        progress: StudyProgress,
    ) -> None:
        self._settings = shared.settings
        self._shared = shared
        self._pool = pool
        self._progress = progress

    def run(self) -> dict[int, SizeResult]:
        """Run everything and return the results by number of executors."""
        sizes = self._settings.sizes
        tuned = self._fitted()
        recorded = self._recorded(tuned)
        resampled_s = self._resampled(tuned)
        return {
            size: SizeResult(
                size,
                recorded[size, None],
                {name: tuned[size, name] for name in self._settings.tuned},
                {
                    name: PolicyResult(recorded[size, name], *resampled_s[size, name])
                    for name in self._settings.policies
                },
            )
            for size in sizes
        }

    def best_pool_change(self) -> PoolResult | None:
        """Return the change of one pool with the lowest average JCT on the sequences to tune on,
        and its results; None where jobs do not come in several pools.
        """
        settings, workload = self._settings, self._shared.workload.value
        if settings.reference != POOLS:
            return None
        used = [jobs.pool for jobs in workload.spark_jobs]
        tried = list(changes(workload.pools, used, settings.executors))
        if not tried:
            return None
        resampled = _Arrivals.RESAMPLED
        scores = [
            self._pool_avg_s(one, resampled, _FIRST_TRAINING, settings.training).mean()
            for one in tried
        ]
        best = tried[int(np.argmin(scores))]
        return PoolResult(
            best,
            self._pool_avg_s(best, _Arrivals.RECORDED, 0, settings.draws),
            self._pool_avg_s(best, resampled, _FIRST_EVALUATION, settings.sequences),
        )

    def _pool_avg_s(
        self, change: PoolChange, arrivals: _Arrivals, first: int, count: int
    ) -> Float64:
        """(count,) average JCT under other settings of one pool."""
        pools = change.applied(self._shared.workload.value.pools)
        runs = {
            number: _Run(self._settings.executors, POOLS, None, arrivals, first + number, pools)
            for number in range(count)
        }
        found = self._map(runs, "pools")
        if arrivals is _Arrivals.RESAMPLED:
            return np.array([average for average, _ in found.values()])
        return np.array([jct_s.mean() for jct_s in found.values()])

    def _fitted(self) -> dict[tuple[int, str], Parameters]:
        """Parameters by number of executors and policy; all are searched side by side."""
        cells = [(size, name) for size in self._settings.sizes for name in self._settings.tuned]
        best = descend_together(
            {cell: descent(cell[1]) for cell in cells},
            lambda asked: self._scores(asked, _FIRST_TRAINING, self._settings.training),
        )
        for size, name in cells:
            skipped = max_scores(name) - best[size, name].scores
            self._progress(_words(name, size), skipped * self._settings.training)
        return self._kept({cell: best[cell].parameters for cell in cells})

    def _kept(
        self, found: Mapping[tuple[int, str], Parameters]
    ) -> dict[tuple[int, str], Parameters]:
        """Return the tuned parameters that beat the shipped ones on held-out sequences.

        A few sequences may leave out the one job that matters.
        """
        asked = {
            (size, name): [HEURISTICS[name].defaults, own]
            for (size, name), own in found.items()
            if own != HEURISTICS[name].defaults
        }
        for size, name in found.keys() - asked.keys():
            self._progress(_words(name, size), 2 * self._settings.held_back)
        scored = self._scores(asked, _FIRST_HELD_BACK, self._settings.held_back)
        return {
            cell: asked[cell][int(np.argmin(scored[cell]))] if cell in asked else own
            for cell, own in found.items()
        }

    def _scores(
        self, asked: Mapping[tuple[int, str], list[Parameters]], first: int, count: int
    ) -> dict[tuple[int, str], list[float]]:
        """Mean of the average JCT over `count` resampled sequences, of each candidate."""
        runs = {
            (size, name, place, number): _Run(
                size, name, parameters, _Arrivals.RESAMPLED, first + number
            )
            for (size, name), candidates in asked.items()
            for place, parameters in enumerate(candidates)
            for number in range(count)
        }
        found = self._map(runs, "tuning")
        return {
            (size, name): [
                float(np.mean([found[size, name, place, k][0] for k in range(count)]))
                for place in range(len(candidates))
            ]
            for (size, name), candidates in asked.items()
        }

    def _recorded(
        self, tuned: Mapping[tuple[int, str], Parameters]
    ) -> dict[tuple[int, str | None], Float64]:
        """(draws, J) completion times by number of executors and policy; None: each job alone."""
        settings = self._settings
        runs: dict[tuple[int, str | None, int], _Run] = {}
        for size in settings.sizes:
            is_main = size == settings.executors
            draws = range(settings.draws if is_main else settings.shared_draws)
            for name in settings.policies:
                for draw in draws:
                    runs[size, name, draw] = _Run(
                        size, name, tuned.get((size, name)), _Arrivals.RECORDED, draw
                    )
            for draw in draws:
                runs[size, None, draw] = _Run(size, _ALONE, None, _Arrivals.APART, draw)
        found: dict[tuple[int, str | None], list[Float64]] = {}
        for (size, policy, _), jct_s in self._map(runs, "recorded arrivals").items():
            found.setdefault((size, policy), []).append(jct_s)
        return {cell: np.array(rows) for cell, rows in found.items()}

    def _resampled(
        self, tuned: Mapping[tuple[int, str], Parameters]
    ) -> dict[tuple[int, str], tuple[Float64, Float64]]:
        """(sequences,) averages and 95th percentiles; empty but for the size asked for."""
        settings = self._settings
        runs = {
            (name, number): _Run(
                settings.executors,
                name,
                tuned.get((settings.executors, name)),
                _Arrivals.RESAMPLED,
                _FIRST_EVALUATION + number,
            )
            for name in settings.policies
            for number in range(settings.sequences)
        }
        rows = self._map(runs, "resampled arrivals")
        found = {
            (size, name): (np.empty(0), np.empty(0))
            for size in settings.sizes
            for name in settings.policies
        }
        for name in settings.policies:
            pairs = [rows[name, number] for number in range(settings.sequences)]
            found[settings.executors, name] = (
                np.array([average for average, _ in pairs]),
                np.array([p95 for _, p95 in pairs]),
            )
        return found

    def _map(self, runs: Mapping[K, _Run], label: str) -> dict[K, Float64]:
        """Play all runs and return `_summary` of each."""
        parts = _parts(runs)
        played: dict[K, Float64] = {}
        for keys, answers in self._pool.map(_played, self._shared, parts, label=label):
            played |= zip(keys, answers, strict=True)
            first = runs[keys[0]]
            self._progress(_words(first.policy, first.executors), len(keys))
        return {key: played[key] for key in runs}


def _words(policy: str, size: int) -> str:
    return f"{policy}, {size} slots"


def _parts(runs: Mapping[K, _Run]) -> dict[tuple[K, ...], tuple[_Run, ...]]:
    """Split runs into tasks: one run each, but up to `_LANES` of a learned policy."""
    groups: dict[tuple[int, str], list[K]] = {}
    found: dict[tuple[K, ...], tuple[_Run, ...]] = {}
    for key, run in runs.items():
        if decides_alone(run.policy):
            groups.setdefault((run.executors, run.policy), []).append(key)
        else:
            found[(key,)] = (run,)
    for keys in groups.values():
        for first in range(0, len(keys), _LANES):
            together = tuple(keys[first : first + _LANES])
            found[together] = tuple(runs[key] for key in together)
    return found


def _played(shared: _Shared, part: tuple[_Run, ...]) -> list[Float64]:
    """Play a task's runs and return `_summary` of each."""
    workload, networks = shared.workload.value, shared.networks.value
    asked = [_arriving(shared, run) for run in part]
    first = part[0]
    cluster = shared.settings.cluster(shared.executors(first))
    if decides_alone(first.policy):
        times_s = workload.learned_jct_s(cluster, first.policy, asked, networks)
    else:
        times_s = [
            workload.jct_s(cluster, run.policy, *one, run.parameters, networks, run.pools)
            for run, one in zip(part, asked, strict=True)
        ]
    return [
        _summary(run, course.arrivals, jct_s)
        for run, (course, _), jct_s in zip(part, asked, times_s, strict=True)
    ]


def _arriving(shared: _Shared, run: _Run) -> tuple[Course, int]:
    """Return the arrivals of a run, and the key of its durations."""
    workload, seed = shared.workload.value, shared.settings.seed
    slots = None if shared.slots is None else shared.slots.scaled(run.executors)
    recorded = workload.recorded(slots)
    if run.arrivals is _Arrivals.RESAMPLED:
        stream = Streams(seed, run.number)
        return resampled(recorded, stream.arrivals()), stream.duration_key()
    key = Streams(seed, _RECORDED, run.number).duration_key()
    if run.arrivals is _Arrivals.RECORDED:
        return recorded, key
    work_ms = np.array([job.work_ms for job in workload.trace.jobs])
    return far_apart(recorded, work_ms), key


def _summary(run: _Run, arrivals: Arrivals, jct_s: Float64) -> Float64:
    """Return mean and 95th percentile (2,) of resampled arrivals, else the JCT (J,) of each job.

    Args:
        run: which it was.
        arrivals: of K jobs; without resampling, of each job once.
        jct_s: (K,) completion times, in the order of the arrivals.
    """
    if run.arrivals is _Arrivals.RESAMPLED:
        return np.array([jct_s.mean(), np.percentile(jct_s, 95)])
    found = np.empty(len(arrivals))
    found[arrivals.job] = jct_s
    return found
