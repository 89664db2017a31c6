"""Changes of the settings of dynamic allocation, tried by `decima whatif`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decima.rl.parallel.pool import WorkerPool
from decima.whatif.load import recorded_reference
from decima.whatif.replay import Recording
from decima.whatif.replay.allocation import (
    BACKLOG,
    IDLE,
    LEAST,
    PREFIX,
    SUSTAINED,
    timeout_ms,
)
from decima.whatif.runs import Arriving, Run, Shared, play_allocation
from spark_sim import Allocation
from traces.errors import TraceError
from traces.numbers import MS_PER_S, Float64

_FACTOR = 4
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


def changes(recording: Recording, asked: Mapping[str, str]) -> Iterator[AllocationChange]:
    """Yield the changes to try of the settings in the log with those `asked` in their place.

    Requests, idle executors and fewest executors are changed, one at a time.
    """
    base = recording.allocation(0, asked)
    if base is None:
        return
    settings = {
        **recording.settings(0),
        **{f"{PREFIX}{name}": value for name, value in asked.items()},
    }
    for tried in _settings(settings, base):
        model = recording.allocation(0, {**asked, **tried})
        if model is not None and model != base:
            words = ", ".join(f"{name}={value}" for name, value in tried.items())
            yield AllocationChange(words, model)


def _settings(settings: Mapping[str, str], base: Allocation) -> Iterator[dict[str, str]]:
    for names in ((BACKLOG, SUSTAINED), (IDLE,)):
        for factor in (1 / _FACTOR, _FACTOR):
            yield {name: _seconds(factor * timeout_ms(settings, name)) for name in names}
    for least in sorted({-(-base.most // 2), base.most}):
        if least > base.least:
            yield {LEAST: str(least)}


def try_changes(
    recording: Recording,
    shared: Shared,
    asked: Mapping[str, str],
    pool: WorkerPool,
    first_sequence: int,
) -> tuple[AllocationResult, ...]:
    """Simulate the recorded settings with those `asked`, first, and `changes` of them.

    Nothing where neither has dynamic allocation, or the log's own cannot be modelled. Resampled
    sequences are numbered from `first_sequence` on.

    Raises:
        TraceError: settings that are `asked` are impossible.
    """
    try:
        base = recording.allocation(0, asked or None)
    except TraceError:
        if asked:
            raise
        return ()  # the log names it, no user does: all else can be answered
    if base is None:
        return ()
    settings = shared.settings
    policy = recorded_reference(recording)
    tried = [AllocationChange("", base), *changes(recording, asked)]
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
    played = dict(pool.map(play_allocation, shared, runs, label="allocation"))

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


def _seconds(time_ms: float) -> str:
    """A timeout as Spark takes it: whole seconds, one at least."""
    return f"{max(1, round(time_ms / MS_PER_S))}s"
