"""The single simulations of a what-if, in the process that plays them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from decima.policies import networks_of
from decima.policy_names import is_learned
from decima.registry import Parameters
from decima.rl.parallel.pool import K, SentOnce
from decima.whatif.load import varying_slots
from decima.whatif.replay import Recording, ReplayWorkload
from decima.whatif.replay.capacity import mean_slots
from decima.whatif.replay.pools import Pools
from decima.whatif.replay.workload import Course, far_apart, resampled
from decima.whatif.settings import WhatIfSettings
from spark_sim import Allocation, Slots, Streams
from traces.numbers import MS_PER_S, Float64

if TYPE_CHECKING:
    from decima.learned import Networks

_RECORDED = 0  # number of the random stream of recorded arrivals; those of `study` come after it
_LANES = 32
"""runs of a learned policy in one task: a step of many costs hardly more than one of a few"""


class Arriving(Enum):
    """Arrivals of a run."""

    RECORDED = "recorded"
    APART = "apart"  # the recorded jobs, none of which meets another
    RESAMPLED = "resampled"


class Run(NamedTuple):
    """One simulation: a task."""

    executors: int
    policy: str
    parameters: Parameters | None
    arrivals: Arriving
    number: int  # of the repetition, or of the resampled sequence
    pools: Pools | None = None  # other settings of pools than the recording's
    allocation: Allocation | None = None  # in place of `Shared.slots`
    is_fixed: bool = False  # whether all slots are there always, whatever `Shared.slots` has


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
        """The most slots of a run."""
        slots = self.slots_of(run)
        if isinstance(slots, Allocation):
            return slots.slots
        if run.arrivals is Arriving.RESAMPLED:
            return max(self.settings.least_slots, round(self.average * run.executors))
        return run.executors


def shared_inputs(recording: Recording, settings: WhatIfSettings, driver_times: bool) -> Shared:
    """Return what all runs of a study share."""
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


def parts_of(runs: Mapping[K, Run]) -> dict[tuple[K, ...], tuple[Run, ...]]:
    """Split runs into tasks: one run each, but up to `_LANES` of a learned policy."""
    groups: dict[tuple[int, str], list[K]] = {}
    parts: dict[tuple[K, ...], tuple[Run, ...]] = {}
    for key, run in runs.items():
        if is_learned(run.policy):
            groups.setdefault((run.executors, run.policy), []).append(key)
        else:
            parts[(key,)] = (run,)
    for keys in groups.values():
        for first in range(0, len(keys), _LANES):
            together = tuple(keys[first : first + _LANES])
            parts[together] = tuple(runs[key] for key in together)
    return parts


def play_part(shared: Shared, part: tuple[Run, ...]) -> list[Float64]:
    """Play a task's runs.

    The figures of each are mean and 95th percentile (2,) of resampled arrivals, else the JCT (J,)
    of each job; before them, under a changed allocation, the slot seconds held.
    """
    workload, networks = shared.workload.value, shared.networks.value
    inputs = [arriving(shared, run) for run in part]
    first = part[0]
    cluster = shared.settings.cluster(shared.executors(first))
    if is_learned(first.policy):
        times_s = workload.learned_jct_s(cluster, first.policy, inputs, networks)
        return [
            _figures(run, course, jct_s)
            for run, (course, _), jct_s in zip(part, inputs, times_s, strict=True)
        ]
    figures = []
    for run, (course, key) in zip(part, inputs, strict=True):
        simulator = workload.played(
            cluster, run.policy, course, key, run.parameters, networks, pools=run.pools
        )
        values = _figures(run, course, workload.jct_of(course, simulator.state))
        if run.allocation is not None:
            held_s = float(simulator.state.allocation[0]["held_ms"]) / MS_PER_S
            values = np.append(held_s, values)
        figures.append(values)
    return figures


def arriving(shared: Shared, run: Run) -> tuple[Course, int]:
    """Return the arrivals of a run, and the key of its durations."""
    workload, seed = shared.workload.value, shared.settings.seed
    recorded = workload.recorded(shared.slots_of(run))
    if run.arrivals is Arriving.RESAMPLED:
        stream = Streams(seed, run.number)
        return resampled(recorded, stream.arrivals()), stream.duration_key()
    key = Streams(seed, _RECORDED, run.number).duration_key()
    if run.arrivals is Arriving.RECORDED:
        return recorded, key
    work_ms = np.array([job.work_ms for job in workload.trace.jobs])
    return far_apart(recorded, work_ms), key


def _figures(run: Run, course: Course, jct_s: Float64) -> Float64:
    if run.arrivals is Arriving.RESAMPLED:
        return np.array([jct_s.mean(), np.percentile(jct_s, 95)])
    by_job = np.empty(len(course.arrivals))
    by_job[course.arrivals.job] = jct_s
    return by_job
