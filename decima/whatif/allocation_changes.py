"""Changes of the settings of dynamic allocation, tried by `decima whatif`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from decima.rl.parallel.pool import WorkerPool
from decima.whatif.load import recorded_reference
from decima.whatif.replay import Recording
from decima.whatif.replay.allocation import BACKLOG, IDLE, LEAST, SUSTAINED
from decima.whatif.runs import Arriving, Run, Shared, play_allocation
from spark_sim import Allocation
from spark_sim.allocation import MAX_TIME_MS
from traces.numbers import MS_PER_S, Float64

_FACTOR = 4
_SHORTEST_MS = 100.0  # Spark looks ten times a second
MOST_CHANGES = 6


class AllocationChange(NamedTuple):
    """Other settings of dynamic allocation."""

    setting: str
    """what is changed, as Spark calls it behind `spark.dynamicAllocation.`; "" for nothing"""
    allocation: Allocation


@dataclass(frozen=True, eq=False)
class AllocationResult:
    """Results of one change."""

    change: AllocationChange
    recorded_jct_s: Float64
    """(draws, J) with the recorded arrivals, jobs as in the trace"""
    resampled_avg_s: Float64
    """(sequences,) average JCT with resampled arrivals"""
    held_s: Float64
    """(draws,) slot seconds held, with the recorded arrivals"""

    @property
    def avg_s(self) -> Float64:
        """(draws,) average JCT with the recorded arrivals."""
        found: Float64 = self.recorded_jct_s.mean(axis=1)
        return found


def changes(base: Allocation) -> Iterator[AllocationChange]:
    """Yield the changes to try: requests, idle executors and fewest executors, one at a time."""
    for factor in (1 / _FACTOR, _FACTOR):
        backlog_ms, sustained_ms = (
            max(factor * time_ms, _SHORTEST_MS) for time_ms in (base.backlog_ms, base.sustained_ms)
        )
        if (backlog_ms, sustained_ms) != (base.backlog_ms, base.sustained_ms):
            words = f"{BACKLOG}={_text(backlog_ms)}, {SUSTAINED}={_text(sustained_ms)}"
            asked = replace(base, backlog_ms=backlog_ms, sustained_ms=sustained_ms)
            yield AllocationChange(words, asked)
    if base.idle_ms < MAX_TIME_MS / _FACTOR:
        for factor in (1 / _FACTOR, _FACTOR):
            idle_ms = max(round(factor * base.idle_ms / MS_PER_S), 1) * MS_PER_S
            asked = replace(base, idle_ms=idle_ms)
            yield AllocationChange(f"{IDLE}={_text(idle_ms)}", asked)
    for least in sorted({-(-base.most // 2), base.most}):
        if least > base.least:
            asked = replace(base, least=least, first=max(base.first, least))
            yield AllocationChange(f"{LEAST}={least}", asked)


def try_changes(
    recording: Recording,
    shared: Shared,
    base: Allocation,
    pool: WorkerPool,
    progress: Callable[[str, int], None],
    first_sequence: int,
) -> tuple[AllocationResult, ...]:
    """Simulate the recorded settings, first, and `changes` of them.

    Resampled sequences are numbered from `first_sequence` on.
    """
    settings = shared.settings
    policy = recorded_reference(recording)
    tried = [AllocationChange("", base), *changes(base)]
    starts = {Arriving.RECORDED: (0, settings.draws)}
    starts[Arriving.RESAMPLED] = (first_sequence, settings.sequences)
    runs = {
        (place, arrivals, number): Run(
            one.allocation.slots, policy, None, arrivals, first + number, None, one.allocation
        )
        for place, one in enumerate(tried)
        for arrivals, (first, count) in starts.items()
        for number in range(count)
    }
    played = {}
    for key, answer in pool.map(play_allocation, shared, runs, label="allocation"):
        played[key] = answer
        progress("dynamic allocation", 1)

    def rows(place: int, arrivals: Arriving) -> Float64:
        return np.array([played[place, arrivals, k] for k in range(starts[arrivals][1])])

    return tuple(
        AllocationResult(
            one,
            rows(place, Arriving.RECORDED)[:, 1:],
            rows(place, Arriving.RESAMPLED)[:, 1],
            rows(place, Arriving.RECORDED)[:, 0],
        )
        for place, one in enumerate(tried)
    )


def _text(time_ms: float) -> str:
    """A time as Spark reads it."""
    return f"{time_ms / MS_PER_S:.0f}s" if time_ms % MS_PER_S == 0 else f"{time_ms:.0f}ms"
