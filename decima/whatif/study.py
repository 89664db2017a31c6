"""Running a recording under other policies and on other numbers of executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from decima.policy_names import is_learned
from decima.registry import HEURISTICS, Parameters
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import K, WorkerPool
from decima.rl.statistics import Estimate, are_repeats
from decima.training.descent import descend_together, descent, max_scores
from decima.whatif.allocation_changes import MOST_CHANGES, AllocationResult, try_changes
from decima.whatif.pool_changes import MOST_POOLS, PoolChange, PoolResult, changes
from decima.whatif.replay import Recording
from decima.whatif.replay.recording import POOLS
from decima.whatif.runs import Arriving, Run, Shared, arriving, parts_of, play_part, shared_inputs
from decima.whatif.settings import WhatIfSettings
from spark_sim import Protocol
from spark_sim.tables import Table
from traces.arrivals import Arrivals
from traces.numbers import Float64

_FIRST_EVALUATION = 1
_FIRST_TRAINING = 1_000_000
_FIRST_HELD_BACK = 2_000_000
# Numbers of random streams: tuning and evaluation share none.

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
    all_slots_avg_s: Float64 | None = None
    """(draws,) average JCT under the reference if no slot came or went; None where none did"""
    allocations: tuple[AllocationResult, ...] = ()
    """the log's settings of dynamic allocation, simulated, and changes of them; () without any"""

    @property
    def main(self) -> SizeResult:
        """Result at the given number of executors."""
        return self.sizes[self.settings.executors]

    @property
    def has_repeats(self) -> bool:
        """True if all draws have equal results, so that they count as one."""
        return any(are_repeats(one.avg_s) for one in self.main.policies.values())

    def are_surely_lower(self, recorded: Estimate, resampled: Estimate) -> bool:
        """Return whether both differences lie below 0; without intervals nothing is certain.

        Repeats of one draw have none: then the resampled arrivals decide.
        """
        if self.has_repeats and recorded.ci95 is None:
            return recorded.mean < 0 and resampled.is_surely_below(0)
        return recorded.is_surely_below(0) and resampled.is_surely_below(0)

    def shared_avg_s(self, executors: int, policy: str | None) -> Float64:
        """(shared draws,) average JCT with the recorded arrivals; None: without other jobs.

        Sizes are compared by it, since tasks take the same time in the same draw.
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
    """Replay `recording` as `settings` ask; the result does not depend on `pool`.

    Policies meet the same arrivals and the same tasks. Parameters are fitted on resampled arrivals
    that no figure is taken from.
    """
    shared = shared_inputs(recording, settings, driver_times)
    study = _Study(shared, pool, progress or (lambda *_: None))
    sizes, pools = study.run(), study.best_pool_change()
    allocations = study.allocation_changes(recording)
    all_slots_avg_s = study.all_slots_avg_s()
    return WhatIf(recording, settings, sizes, driver_times, pools, all_slots_avg_s, allocations)


def tasks_of(found: WhatIf, policy: str) -> tuple[Arrivals, Table]:
    """The arrivals and tasks (`Simulator.timeline`) of the first draw of the recorded jobs."""
    settings = found.settings
    shared = shared_inputs(found.recording, settings, found.driver_times)
    tuned = found.main.tuned.get(policy)
    run = Run(settings.executors, policy, tuned, Arriving.RECORDED, 0)
    course, key = arriving(shared, run)
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
    pools = 0
    if settings.reference == POOLS:
        pools = 3 * MOST_POOLS * settings.training + settings.draws + settings.sequences
    allocations = _allocation_runs(settings)
    return (
        allocations
        + pools
        + sizes * tuning
        + (policies + 1) * draws
        + policies * settings.sequences
    )


def _allocation_runs(settings: WhatIfSettings) -> int:
    return (1 + MOST_CHANGES) * (settings.draws + settings.sequences)


class _Study:
    """The runs of one what-if: a grid of policies, numbers of executors and sequences."""

    def __init__(self, shared: Shared, pool: WorkerPool, progress: StudyProgress) -> None:
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
        """Return the change of one pool that is best on the tuning sequences; None for one pool."""
        settings, workload = self._settings, self._shared.workload.value
        if settings.reference != POOLS:
            return None
        used = [jobs.pool for jobs in workload.spark_jobs]
        tried = list(changes(workload.pools, used, settings.executors))
        if not tried:
            return None
        resampled = Arriving.RESAMPLED
        scores = [
            self._pool_avg_s(one, resampled, _FIRST_TRAINING, settings.training).mean()
            for one in tried
        ]
        best = tried[int(np.argmin(scores))]
        return PoolResult(
            best,
            self._pool_avg_s(best, Arriving.RECORDED, 0, settings.draws),
            self._pool_avg_s(best, resampled, _FIRST_EVALUATION, settings.sequences),
        )

    def all_slots_avg_s(self) -> Float64 | None:
        """(draws,) average JCT if all slots were there always; None where they are."""
        settings = self._settings
        if self._shared.slots is None or is_learned(settings.reference):
            return None
        name, tuned = settings.reference, None
        runs = {
            draw: Run(settings.executors, name, tuned, Arriving.RECORDED, draw, is_fixed=True)
            for draw in range(settings.draws)
        }
        found = self._pool.map(play_part, self._shared, parts_of(runs), label="all slots")
        return np.array([jct_s.mean() for _, answers in found for jct_s in answers])

    def allocation_changes(self, recording: Recording) -> tuple[AllocationResult, ...]:
        """Return the results of dynamic allocation as recorded, and of changed settings."""
        settings = self._settings
        found: tuple[AllocationResult, ...] = ()
        if len(recording.slots) == 1 and settings.protocol == Protocol.SESSION.label:
            asked = settings.allocation or {}
            found = try_changes(recording, self._shared, asked, self._pool, _FIRST_EVALUATION)
        self._progress("dynamic allocation", _allocation_runs(settings))
        return found

    def _pool_avg_s(
        self, change: PoolChange, arrivals: Arriving, first: int, count: int
    ) -> Float64:
        """(count,) average JCT under other settings of one pool."""
        pools = change.applied(self._shared.workload.value.pools)
        runs = {
            number: Run(self._settings.executors, POOLS, None, arrivals, first + number, pools)
            for number in range(count)
        }
        found = self._map(runs, "pools")
        if arrivals is Arriving.RESAMPLED:
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
            (size, name, place, number): Run(
                size, name, parameters, Arriving.RESAMPLED, first + number
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
        runs: dict[tuple[int, str | None, int], Run] = {}
        for size in settings.sizes:
            is_main = size == settings.executors
            draws = range(settings.draws if is_main else settings.shared_draws)
            for name in settings.policies:
                for draw in draws:
                    runs[size, name, draw] = Run(
                        size, name, tuned.get((size, name)), Arriving.RECORDED, draw
                    )
            for draw in draws:
                runs[size, None, draw] = Run(size, _ALONE, None, Arriving.APART, draw)
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
            (name, number): Run(
                settings.executors,
                name,
                tuned.get((settings.executors, name)),
                Arriving.RESAMPLED,
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

    def _map(self, runs: Mapping[K, Run], label: str) -> dict[K, Float64]:
        """Play all runs and return `_summary` of each."""
        parts = parts_of(runs)
        played: dict[K, Float64] = {}
        for keys, answers in self._pool.map(play_part, self._shared, parts, label=label):
            played |= zip(keys, answers, strict=True)
            first = runs[keys[0]]
            self._progress(_words(first.policy, first.executors), len(keys))
        return {key: played[key] for key in runs}


def _words(policy: str, size: int) -> str:
    return f"{policy}, {size} slots"
