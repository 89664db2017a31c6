"""Recordings under other policies, on other numbers of executors, and after other settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from decima.policies import networks_of
from decima.policy_names import is_learned
from decima.registry import HEURISTICS, Parameters
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import K, SentOnce, WorkerPool
from decima.training.descent import descend_together, descent, max_scores
from decima.whatif.applications.cluster import ClusterRun, Outcome
from decima.whatif.applications.ways import way_named
from decima.whatif.applications.workload import (
    ASSUMED_DELAY_MS,
    ApplicationsWorkload,
    measured_delay_ms,
)
from decima.whatif.changes import (
    MOST_ALLOCATIONS,
    MOST_POOLS,
    AllocationChange,
    PoolChange,
    allocation_changes,
    pool_changes,
)
from decima.whatif.load import recorded_reference, varying_slots
from decima.whatif.replay import Recording, ReplayWorkload
from decima.whatif.replay.allocation import mean_slots
from decima.whatif.replay.pools import Pools
from decima.whatif.replay.recording import POOLS
from decima.whatif.replay.workload import Course, far_apart, resampled
from decima.whatif.results import ApplicationsWhatIf, Progress, Result, SizeResult, WhatIf
from decima.whatif.settings import ALONE, RECORDED, ApplicationsSettings, WhatIfSettings
from spark_sim import Allocation, Protocol, Slots, Streams
from spark_sim.tables import State, Table
from traces.arrivals import Arrivals
from traces.numbers import MS_PER_S, Float64

if TYPE_CHECKING:
    from decima.learned import Networks

_RECORDED = 0
_FIRST_EVALUATION = 1
_FIRST_TRAINING = 1_000_000
_FIRST_HELD_BACK = 2_000_000
# Numbers of random streams: recorded arrivals, tuning and evaluation share none.
_LANES = 32
"""runs of a learned policy in one task: a step of many costs hardly more than one of a few"""
_ALONE = "strict_fair"
# A single job gets every slot under any policy; this one is compiled for every protocol.

_Candidates = Mapping[tuple[int, str], list[Parameters]]
"""by number of executors and policy"""


class Run(NamedTuple):
    """One simulation: a task."""

    executors: int
    policy: str
    parameters: Parameters | None = None
    arrivals: Literal["recorded", "apart", "resampled"] = "recorded"  # apart: no job meets another
    number: int = 0  # of the repetition, or of the resampled sequence
    pools: Pools | None = None  # other settings of pools than the recording's
    allocation: Allocation | None = None  # in place of `Shared.slots`
    is_fixed: bool = False  # whether all slots are there always, whatever `Shared.slots` has
    is_bounded: bool = False  # whether the settings' bounds hold


class Shared(NamedTuple):
    """Inputs that all runs share."""

    workload: SentOnce[ReplayWorkload]
    networks: SentOnce[Networks]
    settings: WhatIfSettings
    slots: Slots | Allocation | None  # as recorded, where they vary, or by the load
    average: float  # over the most slots; 1 where they do not vary or follow the load

    def slots_of(self, run: Run) -> Slots | Allocation | None:
        """The slots of a run; None: a fixed number."""
        if run.allocation is not None:
            return run.allocation
        if self.slots is None or run.is_fixed:
            return None
        return self.slots.scaled(run.executors)

    def executors(self, run: Run) -> int:
        slots = self.slots_of(run)
        if isinstance(slots, Allocation):
            return slots.slots
        if run.arrivals == "resampled":
            return max(self.settings.least_slots, round(self.average * run.executors))
        return run.executors

    def arriving(self, run: Run) -> tuple[Course, int]:
        """Return the arrivals of a run, and the key of its durations."""
        workload, seed = self.workload.value, self.settings.seed
        recorded = workload.recorded(self.slots_of(run))
        if run.arrivals == "resampled":
            stream = Streams(seed, run.number)
            return resampled(recorded, stream.arrivals()), stream.duration_key()
        key = Streams(seed, _RECORDED, run.number).duration_key()
        if run.arrivals == "recorded":
            return recorded, key
        work_ms = np.array([job.work_ms for job in workload.trace.jobs])
        return far_apart(recorded, work_ms), key


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
    shared = _shared_inputs(recording, settings, driver_times)
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
        study.bounded(tuned),
    )


def tasks_of(study: WhatIf, policy: str) -> tuple[Arrivals, Table]:
    """The arrivals and tasks (`Simulator.timeline`) of the first draw of the recorded jobs."""
    settings = study.settings
    shared = _shared_inputs(study.recording, settings, study.driver_times)
    tuned = study.main.tuned.get(policy)
    run = Run(settings.executors, policy, tuned)
    course, key = shared.arriving(run)
    cluster = settings.cluster(shared.executors(run))
    simulator = shared.workload.value.played(
        cluster, policy, course, key, tuned, shared.networks.value, timeline=True
    )
    return course.arrivals, simulator.timeline()


def recorded_results(
    study: WhatIf,
    runs: Mapping[K, tuple[Run, int]],
    *,
    pool: WorkerPool = HERE,
    progress: Progress | None = None,
) -> dict[K, Result]:
    """Results of so many draws of each run, with the recorded arrivals.

    Parameters are those that were fitted on the study's own number of slots.
    """
    shared = _shared_inputs(study.recording, study.settings, study.driver_times)
    tuned = study.main.tuned
    cells = {
        key: (run._replace(parameters=tuned.get(run.policy)), draws)
        for key, (run, draws) in runs.items()
    }
    played = _Study(shared, pool, progress or (lambda *_: None)).played(cells, "budget")
    return {
        key: Result(figures)
        if runs[key][0].allocation is None
        else Result(figures[:, 1:], held_s=figures[:, 0])
        for key, figures in played.items()
    }


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
    if settings.is_bounded:
        runs += once
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
                run = Run(size, name, tuned.get((size, name)))
                recorded[size, name] = run, draws
                if is_main:
                    run = run._replace(arrivals="resampled", number=_FIRST_EVALUATION)
                    resampled[size, name] = run, settings.sequences
            recorded[size, None] = Run(size, _ALONE, arrivals="apart"), draws
        jct_s = self.played(recorded, "recorded arrivals")
        averages_s = self.played(resampled, "resampled arrivals")
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
            Run(settings.executors, POOLS, pools=change.applied(workload.pools))
            for change in changes
        ]
        trained = {
            place: (run._replace(arrivals="resampled", number=_FIRST_TRAINING), settings.training)
            for place, run in enumerate(runs)
        }
        averages_s = self.played(trained, "pools")
        best = int(np.argmin([averages_s[place][:, 0].mean() for place in trained]))
        return changes[best], self._results([runs[best]])[0]

    def all_slots(self) -> Result | None:
        """Play the reference with all slots always there; None where they are."""
        settings = self._settings
        if self._shared.slots is None or is_learned(settings.reference):
            return None
        run = Run(settings.executors, settings.reference, is_fixed=True)
        return Result(self.played({0: (run, settings.draws)}, "all slots")[0])

    def allocations(self, recording: Recording) -> tuple[tuple[AllocationChange, Result], ...]:
        """Play dynamic allocation as recorded, then changes of its settings."""
        settings = self._settings
        if len(recording.slots) > 1 or settings.protocol != Protocol.SESSION.label:
            return ()
        changes = allocation_changes(recording, settings.allocation or {})
        policy = recorded_reference(recording)
        runs = [
            Run(change.allocation.slots, policy, allocation=change.allocation) for change in changes
        ]
        return tuple(zip(changes, self._results(runs), strict=True))

    def bounded(self, tuned: Mapping[tuple[int, str], Parameters]) -> Result | None:
        """Play the reference under the bounds of the settings; None without any."""
        settings = self._settings
        if not settings.is_bounded:
            return None
        parameters = tuned.get((settings.executors, settings.reference))
        run = Run(settings.executors, settings.reference, parameters, is_bounded=True)
        return self._results([run])[0]

    def _results(self, runs: Sequence[Run]) -> list[Result]:
        """Play settings with recorded and with resampled arrivals."""
        settings = self._settings
        cells = {}
        for place, run in enumerate(runs):
            recorded = run._replace(arrivals="recorded", number=0)
            cells[place, True] = recorded, settings.draws
            resampled = run._replace(arrivals="resampled", number=_FIRST_EVALUATION)
            cells[place, False] = resampled, settings.sequences
        played = self.played(cells, "settings")
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
            (size, name, place): (Run(size, name, parameters, "resampled", first), count)
            for (size, name), tried in candidates.items()
            for place, parameters in enumerate(tried)
        }
        averages_s = self.played(runs, "tuning")
        return {
            (size, name): [
                float(averages_s[size, name, place][:, 0].mean()) for place in range(len(tried))
            ]
            for (size, name), tried in candidates.items()
        }

    def played(self, cells: Mapping[K, tuple[Run, int]], label: str) -> dict[K, Float64]:
        """(count, ...) figures of `count` repetitions of each run, numbered from its own on."""
        runs = {
            (cell, k): run._replace(number=run.number + k)
            for cell, (run, count) in cells.items()
            for k in range(count)
        }
        played: dict[tuple[K, int], Float64] = {}
        # One run in a task, but many of a learned policy on as many slots.
        groups: dict[tuple[int, str], list[tuple[K, int]]] = {}
        for key, run in runs.items():
            if is_learned(run.policy):
                groups.setdefault((run.executors, run.policy), []).append(key)
        tasks: list[tuple[tuple[K, int], ...]] = [
            (key,) for key, run in runs.items() if not is_learned(run.policy)
        ]
        for group in groups.values():
            tasks += [tuple(group[at : at + _LANES]) for at in range(0, len(group), _LANES)]
        parts = {keys: tuple(runs[key] for key in keys) for keys in tasks}
        for keys, answers in self._pool.map(_play_part, self._shared, parts, label=label):
            played |= zip(keys, answers, strict=True)
            run = runs[keys[0]]
            self._progress(f"{run.policy}, {run.executors} slots", len(keys))
        return {
            cell: np.array([played[cell, k] for k in range(count)])
            for cell, (_, count) in cells.items()
        }


def _columns(figures: Float64 | None) -> tuple[Float64, ...]:
    return () if figures is None else tuple(np.ascontiguousarray(figures.T))


def _shared_inputs(recording: Recording, settings: WhatIfSettings, driver_times: bool) -> Shared:
    workload = ReplayWorkload.of(
        recording, driver_times=driver_times, estimates=settings.estimates, seed=settings.seed
    )
    slots: Slots | Allocation | None = None
    average = 1.0
    if settings.allocation is not None:
        slots = recording.allocation(0, settings.allocation)
    elif settings.slots_vary and (curve := varying_slots(recording)) is not None:
        slots = curve
        average = mean_slots(curve, recording.arrival_ms, recording.end_ms) / curve.most
    networks = networks_of(settings.policies)
    return Shared(SentOnce(workload), SentOnce(networks), settings, slots, average)


def _play_part(shared: Shared, part: tuple[Run, ...]) -> list[Float64]:
    """Play a task's runs.

    The figures of each are mean and 95th percentile (2,) of resampled arrivals, else the JCT (J,)
    of each job; before them, under a changed allocation, the slot seconds held.
    """
    workload, networks = shared.workload.value, shared.networks.value

    def figures_of(run: Run, course: Course, state: State) -> Float64:
        jct_s = workload.jct_of(course, state)
        if run.arrivals == "resampled":
            figures = np.array([jct_s.mean(), np.percentile(jct_s, 95)])
        else:
            figures = np.empty(len(course.arrivals))
            figures[course.arrivals.job] = jct_s
        if run.allocation is None:
            return figures
        return np.append(float(state.allocation[0]["held_ms"]) / MS_PER_S, figures)

    inputs = [shared.arriving(run) for run in part]
    first = part[0]
    cluster = shared.settings.cluster(shared.executors(first), is_bounded=first.is_bounded)
    max_slots = shared.settings.max_slots if first.is_bounded else None
    if is_learned(first.policy):
        states = workload.learned_states(
            cluster, first.policy, inputs, networks, max_slots=max_slots
        )
    else:
        states = [
            workload.played(
                cluster,
                run.policy,
                course,
                key,
                run.parameters,
                networks,
                pools=run.pools,
                max_slots=max_slots,
            ).state
            for run, (course, key) in zip(part, inputs, strict=True)
        ]
    return [
        figures_of(run, course, state)
        for run, (course, _), state in zip(part, inputs, states, strict=True)
    ]


def applications_what_if(
    recording: Recording,
    settings: ApplicationsSettings,
    *,
    driver_times: bool = True,
    pool: WorkerPool = HERE,
    progress: Progress | None = None,
) -> ApplicationsWhatIf:
    """Simulate the applications of `recording`; the result does not depend on `pool`.

    Every way meets the same arrivals, and in one draw the same tasks.
    """
    measured_ms = measured_delay_ms(recording)
    delay_ms = ASSUMED_DELAY_MS if measured_ms is None else measured_ms
    if settings.moving_delay_s is not None:
        delay_ms = MS_PER_S * settings.moving_delay_s
    workload = ApplicationsWorkload.of(
        recording,
        settings.slots,
        delay_ms,
        driver_times=driver_times,
        estimates=settings.estimates,
        seed=settings.seed,
    )
    tasks = {run: run for run in product(run_ways(settings), range(settings.draws))}
    outcomes: dict[str, list[Outcome]] = {}
    shared = SentOnce(workload), settings.seed
    for (way, _), outcome in pool.map(_play_division, shared, tasks, label="applications"):
        outcomes.setdefault(way, []).append(outcome)
        if progress is not None:
            progress(way, 1)
    results = {
        way: Result(
            np.array([outcome.jct_s for outcome in drawn]),
            held_s=np.array([outcome.held_s for outcome in drawn]),
            starts=np.array([outcome.starts for outcome in drawn], np.float64),
        )
        for way, drawn in outcomes.items()
    }
    is_delay_measured = settings.moving_delay_s is None and measured_ms is not None
    return ApplicationsWhatIf(recording, settings, workload, is_delay_measured, results)


def run_ways(settings: ApplicationsSettings) -> tuple[str, ...]:
    """All ways that are simulated: the recorded one is the check, and `ALONE` the bound."""
    return tuple(dict.fromkeys((*settings.policies, RECORDED, ALONE)))


def _play_division(
    shared: tuple[SentOnce[ApplicationsWorkload], int], task: tuple[str, int]
) -> Outcome:
    workload, (way, draw) = shared[0].value, task
    outcome = ClusterRun(workload, way_named(way, workload), shared[1], draw).play()
    if way == RECORDED and workload.recorded_starts is not None:
        # Slots are replayed one by one; executors came with several.
        return outcome._replace(starts=workload.recorded_starts)
    return outcome
