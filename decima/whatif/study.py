"""A recording under other policies, on other numbers of executors, and after other settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from decima.policy_names import is_learned
from decima.registry import HEURISTICS, Parameters
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import K, WorkerPool
from decima.training.descent import descend_together, descent, max_scores
from decima.whatif.changes import (
    MOST_ALLOCATIONS,
    MOST_POOLS,
    AllocationChange,
    PoolChange,
    allocation_changes,
    pool_changes,
)
from decima.whatif.load import recorded_reference
from decima.whatif.replay import Recording
from decima.whatif.replay.recording import POOLS
from decima.whatif.results import Progress, Result, SizeResult, WhatIf
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

_Candidates = Mapping[tuple[int, str], list[Parameters]]
"""by number of executors and policy"""


def what_if(
    recording: Recording,
    settings: WhatIfSettings,
    *,
    driver_times: bool = True,
    pool: WorkerPool = HERE,
    progress: Progress | None = None,
) -> WhatIf:
    """Replay `recording` as `settings` ask; the result does not depend on `pool`.

    Policies meet the same arrivals and the same tasks. Parameters are fitted on resampled arrivals
    that no figure is taken from.
    """
    shared = shared_inputs(recording, settings, driver_times)
    study = _Study(shared, pool, progress or (lambda *_: None))
    tuned = study.tuned()
    return WhatIf(
        recording,
        settings,
        study.sizes(tuned),
        driver_times,
        study.best_pool_change(),
        study.all_slots(),
        study.allocations(recording),
    )


def tasks_of(study: WhatIf, policy: str) -> tuple[Arrivals, Table]:
    """The arrivals and tasks (`Simulator.timeline`) of the first draw of the recorded jobs."""
    settings = study.settings
    shared = shared_inputs(study.recording, settings, study.driver_times)
    tuned = study.main.tuned.get(policy)
    run = Run(settings.executors, policy, tuned, Arriving.RECORDED, 0)
    course, key = arriving(shared, run)
    simulator = shared.workload.value.played(
        settings.cluster(shared.executors(run)),
        policy,
        course,
        key,
        tuned,
        shared.networks.value,
        timeline=True,
    )
    return course.arrivals, simulator.timeline()


def total_runs(settings: WhatIfSettings) -> int:
    """Upper bound of the number of runs of `what_if`."""
    policies, sizes = len(settings.policies), len(settings.sizes)
    draws = settings.draws + (sizes - 1) * settings.shared_draws
    once = settings.draws + settings.sequences  # of one change of settings
    runs = (policies + 1) * draws + policies * settings.sequences
    for name in settings.tuned:
        runs += sizes * (max_scores(name) * settings.training + 2 * settings.held_back)
    if settings.reference == POOLS:
        runs += 3 * MOST_POOLS * settings.training + once
    if settings.slots_vary or settings.allocation is not None:
        runs += settings.draws
    return runs + (1 + MOST_ALLOCATIONS) * once


class _Study:
    """Plays the runs of one what-if: policies, numbers of executors, settings, sequences."""

    def __init__(self, shared: Shared, pool: WorkerPool, progress: Progress) -> None:
        self._settings = shared.settings
        self._shared = shared
        self._pool = pool
        self._progress = progress

    def tuned(self) -> dict[tuple[int, str], Parameters]:
        """Parameters by number of executors and policy; all are searched side by side.

        Those that do not beat the shipped ones on held-out sequences are dropped: a few sequences
        may leave out the one job that matters.
        """
        cells = [(size, name) for size in self._settings.sizes for name in self._settings.tuned]
        best = descend_together(
            {cell: descent(cell[1]) for cell in cells},
            lambda candidates: self._scores(candidates, _FIRST_TRAINING, self._settings.training),
        )
        candidates = {
            (size, name): [HEURISTICS[name].defaults, best[size, name].parameters]
            for size, name in cells
            if best[size, name].parameters != HEURISTICS[name].defaults
        }
        scores = self._scores(candidates, _FIRST_HELD_BACK, self._settings.held_back)
        return {
            cell: candidates[cell][int(np.argmin(scores[cell]))]
            if cell in candidates
            else best[cell].parameters
            for cell in cells
        }

    def sizes(self, tuned: Mapping[tuple[int, str], Parameters]) -> dict[int, SizeResult]:
        """Play all policies with recorded arrivals, and on the given executors with others."""
        settings = self._settings
        recorded: dict[tuple[int, str | None], tuple[Run, int]] = {}
        resampled: dict[tuple[int, str], tuple[Run, int]] = {}
        for size in settings.sizes:
            is_main = size == settings.executors
            draws = settings.draws if is_main else settings.shared_draws
            for name in settings.policies:
                run = Run(size, name, tuned.get((size, name)), Arriving.RECORDED, 0)
                recorded[size, name] = run, draws
                if is_main:
                    run = run._replace(arrivals=Arriving.RESAMPLED, number=_FIRST_EVALUATION)
                    resampled[size, name] = run, settings.sequences
            recorded[size, None] = Run(size, _ALONE, None, Arriving.APART, 0), draws
        jct_s = self._played(recorded, "recorded arrivals")
        averages_s = self._played(resampled, "resampled arrivals")
        return {
            size: SizeResult(
                Result(jct_s[size, None]),
                {name: tuned[size, name] for name in settings.tuned},
                {
                    name: Result(jct_s[size, name], *_columns(averages_s.get((size, name))))
                    for name in settings.policies
                },
            )
            for size in settings.sizes
        }

    def best_pool_change(self) -> tuple[PoolChange, Result] | None:
        """Return the change of one pool that is best on the tuning sequences; None for one pool."""
        settings, workload = self._settings, self._shared.workload.value
        if settings.reference != POOLS:
            return None
        used = [jobs.pool for jobs in workload.spark_jobs]
        changes = list(pool_changes(workload.pools, used, settings.executors))
        if not changes:
            return None
        runs = [
            Run(
                settings.executors,
                POOLS,
                None,
                Arriving.RESAMPLED,
                _FIRST_TRAINING,
                change.applied(workload.pools),
            )
            for change in changes
        ]
        trained = {place: (run, settings.training) for place, run in enumerate(runs)}
        averages_s = self._played(trained, "pools")
        best = int(np.argmin([averages_s[place][:, 0].mean() for place in trained]))
        (result,) = self._results([runs[best]])
        return changes[best], result

    def all_slots(self) -> Result | None:
        """Play the reference with all slots always there; None where they are."""
        settings = self._settings
        if self._shared.slots is None or is_learned(settings.reference):
            return None
        run = Run(settings.executors, settings.reference, None, Arriving.RECORDED, 0, is_fixed=True)
        return Result(self._played({0: (run, settings.draws)}, "all slots")[0])

    def allocations(self, recording: Recording) -> tuple[tuple[AllocationChange, Result], ...]:
        """Play dynamic allocation as recorded, then changes of its settings."""
        settings = self._settings
        if len(recording.slots) > 1 or settings.protocol != Protocol.SESSION.label:
            return ()
        changes = allocation_changes(recording, settings.allocation or {})
        policy = recorded_reference(recording)
        runs = [
            Run(
                change.allocation.slots,
                policy,
                None,
                Arriving.RECORDED,
                0,
                allocation=change.allocation,
            )
            for change in changes
        ]
        return tuple(zip(changes, self._results(runs), strict=True))

    def _results(self, runs: Sequence[Run]) -> list[Result]:
        """Play settings with recorded and with resampled arrivals."""
        settings = self._settings
        cells = {}
        for place, run in enumerate(runs):
            recorded = run._replace(arrivals=Arriving.RECORDED, number=0)
            cells[place, True] = recorded, settings.draws
            resampled = run._replace(arrivals=Arriving.RESAMPLED, number=_FIRST_EVALUATION)
            cells[place, False] = resampled, settings.sequences
        played = self._played(cells, "settings")
        results = []
        for place, run in enumerate(runs):
            recorded_s, resampled_s = played[place, True], played[place, False]
            if run.allocation is None:
                results.append(Result(recorded_s, *_columns(resampled_s)))
            else:
                _, average_s, p95_s = _columns(resampled_s)
                results.append(Result(recorded_s[:, 1:], average_s, p95_s, recorded_s[:, 0]))
        return results

    def _scores(
        self, candidates: _Candidates, first: int, count: int
    ) -> dict[tuple[int, str], list[float]]:
        """Mean of the average JCT over `count` resampled sequences, of each candidate."""
        runs = {
            (size, name, place): (Run(size, name, parameters, Arriving.RESAMPLED, first), count)
            for (size, name), tried in candidates.items()
            for place, parameters in enumerate(tried)
        }
        averages_s = self._played(runs, "tuning")
        return {
            (size, name): [
                float(averages_s[size, name, place][:, 0].mean()) for place in range(len(tried))
            ]
            for (size, name), tried in candidates.items()
        }

    def _played(self, cells: Mapping[K, tuple[Run, int]], label: str) -> dict[K, Float64]:
        """(count, ...) figures of `count` repetitions of each run, numbered from its own on."""
        runs = {
            (cell, k): run._replace(number=run.number + k)
            for cell, (run, count) in cells.items()
            for k in range(count)
        }
        played: dict[tuple[K, int], Float64] = {}
        for keys, answers in self._pool.map(play_part, self._shared, parts_of(runs), label=label):
            played |= zip(keys, answers, strict=True)
            run = runs[keys[0]]
            self._progress(f"{run.policy}, {run.executors} slots", len(keys))
        return {
            cell: np.array([played[cell, k] for k in range(count)])
            for cell, (_, count) in cells.items()
        }


def _columns(figures: Float64 | None) -> tuple[Float64, ...]:
    return () if figures is None else tuple(np.ascontiguousarray(figures.T))
