"""The recorded applications under every way to divide their cluster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.whatif.applications.cluster import ClusterRun, Outcome
from decima.whatif.applications.ways import way_named
from decima.whatif.applications.workload import (
    ASSUMED_DELAY_MS,
    ApplicationsWorkload,
    measured_delay_ms,
)
from decima.whatif.replay import Recording
from decima.whatif.results import ApplicationsWhatIf, Progress, Result
from decima.whatif.settings import ALONE, RECORDED, ApplicationsSettings
from traces.numbers import MS_PER_S


class _Shared(NamedTuple):
    """Inputs that all runs share."""

    workload: SentOnce[ApplicationsWorkload]
    seed: int


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
    tasks = {
        (way, draw): (way, draw) for way in run_ways(settings) for draw in range(settings.draws)
    }
    outcomes: dict[str, list[Outcome]] = {}
    shared = _Shared(SentOnce(workload), settings.seed)
    for (way, _), outcome in pool.map(_played, shared, tasks, label="applications"):
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


def _played(shared: _Shared, task: tuple[str, int]) -> Outcome:
    workload = shared.workload.value
    way, draw = task
    outcome = ClusterRun(workload, way_named(way, workload), shared.seed, draw).play()
    if way == RECORDED and workload.recorded_starts is not None:
        # Slots are replayed one by one; executors came with several.
        return outcome._replace(starts=workload.recorded_starts)
    return outcome
