"""The recorded applications under every way to divide their cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.rl.statistics import (
    Estimate,
    are_repeats,
    difference_percent,
    neighbours_difference_percent,
)
from decima.whatif.applications.cluster import ClusterRun, Outcome
from decima.whatif.applications.delay import measured_delay_ms
from decima.whatif.applications.settings import ALONE, RECORDED, ApplicationsSettings
from decima.whatif.applications.ways import way_named
from decima.whatif.applications.workload import (
    ASSUMED_DELAY_MS,
    ApplicationsWorkload,
)
from decima.whatif.replay import Recording, ReplayReport
from decima.whatif.replay.check import overlapping
from traces.numbers import MS_PER_S, Float64


@dataclass(frozen=True, eq=False)
class WayResult:
    """One way to divide the cluster."""

    jct_s: Float64
    """(draws, J) jobs as in the trace"""
    held_s: Float64
    """(draws,) slot seconds that applications held"""
    starts: Float64
    """(draws,) executors that were started"""

    @property
    def avg_s(self) -> Float64:
        """(draws,) average JCT."""
        found: Float64 = self.jct_s.mean(axis=1)
        return found

    @property
    def p95_s(self) -> Float64:
        """(draws,) 95th percentile of JCT."""
        found: Float64 = np.percentile(self.jct_s, 95, axis=1)
        return found


@dataclass(frozen=True, eq=False)
class ApplicationsWhatIf:
    """Results of all ways."""

    recording: Recording
    settings: ApplicationsSettings
    workload: ApplicationsWorkload
    is_delay_measured: bool
    """whether the logs show how long an executor takes to come"""
    ways: Mapping[str, WayResult]
    recorded: WayResult
    """the recorded executors, whether that way is asked for or not"""
    alone: WayResult
    """each application with the whole cluster"""

    @property
    def reference(self) -> WayResult:
        """The way that the others are compared with."""
        return self.ways[self.settings.reference]

    @property
    def has_repeats(self) -> bool:
        """True if all draws have equal results, so that they count as one."""
        return any(are_repeats(one.avg_s) for one in self.ways.values())

    def of_draws(self, name: str) -> Estimate:
        """Percent of average JCT against the reference, paired by draw."""
        return difference_percent(self.ways[name].avg_s, self.reference.avg_s)

    def of_jobs(self, name: str) -> Estimate:
        """Percent of average JCT against the reference, paired by job, stretches resampled."""
        order = np.argsort(self.recording.arrival_ms, kind="stable")
        values, base = (one.jct_s.mean(axis=0)[order] for one in (self.ways[name], self.reference))
        return neighbours_difference_percent(values, base)

    def is_surely_lower(self, name: str) -> bool:
        """Return whether both differences lie below 0; repeats of one draw have no interval."""
        parts = [self.of_jobs(name)]
        if not self.has_repeats:
            parts.append(self.of_draws(name))
        return all(one.ci95 is not None and one.ci95[1] < 0 for one in parts)

    def check(self) -> ReplayReport:
        """Compare the recorded division, simulated, with the recording."""
        recording = self.recording
        simulated_s = self.recorded.jct_s.mean(axis=0)
        return ReplayReport(
            recording,
            tuple(recording.policy(place) for place in range(len(recording.slots))),
            recording.slots,
            recording.recorded_ms / MS_PER_S,
            simulated_s,
            self.recorded.jct_s.std(axis=0),
            simulated_s,
            overlapping(recording),
        )


class _Shared(NamedTuple):
    """Inputs that all runs share."""

    workload: SentOnce[ApplicationsWorkload]
    seed: int


class _Task(NamedTuple):
    """One run."""

    way: str
    draw: int


def applications_what_if(
    recording: Recording,
    settings: ApplicationsSettings,
    *,
    driver_times: bool = True,
    pool: WorkerPool = HERE,
    progress: Callable[[str], None] | None = None,
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
    tasks = {
        (way, draw): _Task(way, draw)
        for way in run_ways(settings)
        for draw in range(settings.draws)
    }
    outcomes: dict[str, list[Outcome]] = {}
    shared = _Shared(SentOnce(workload), settings.seed)
    for (way, _), outcome in pool.map(_played, shared, tasks, label="applications"):
        outcomes.setdefault(way, []).append(outcome)
        if progress is not None:
            progress(way)
    results = {way: _result(found) for way, found in outcomes.items()}
    return ApplicationsWhatIf(
        recording,
        settings,
        workload,
        settings.moving_delay_s is None and measured_ms is not None,
        {way: results[way] for way in settings.ways},
        results[RECORDED],
        results[ALONE],
    )


def run_ways(settings: ApplicationsSettings) -> tuple[str, ...]:
    """All ways that are simulated: the recorded one is the check, and `ALONE` the bound."""
    return tuple(dict.fromkeys((*settings.ways, RECORDED, ALONE)))


def _played(shared: _Shared, task: _Task) -> Outcome:
    workload = shared.workload.value
    outcome = ClusterRun(workload, way_named(task.way, workload), shared.seed, task.draw).play()
    if task.way == RECORDED and workload.recorded_starts is not None:
        # Slots are replayed one by one; executors came with several.
        return outcome._replace(starts=workload.recorded_starts)
    return outcome


def _result(found: list[Outcome]) -> WayResult:
    return WayResult(
        np.array([one.jct_s for one in found]),
        np.array([one.held_s for one in found]),
        np.array([one.starts for one in found], np.float64),
    )
