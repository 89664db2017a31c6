"""Changes of Spark's settings that `decima whatif` tries: of one pool, or of the allocation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from decima.whatif.replay import Recording
from decima.whatif.replay.allocation import (
    BACKLOG,
    IDLE,
    LEAST,
    MOST,
    PREFIX,
    SUSTAINED,
    timeout_ms,
)
from decima.whatif.replay.pools import MAX_WEIGHT, Pool, Pools
from spark_sim import Allocation
from spark_sim.cluster import MAX_EXECUTORS
from traces.errors import TraceError
from traces.numbers import MS_PER_S

MOST_POOLS = 6  # pools that are tried, those with the most jobs
_HEAVIER = 4
_SHARE = 0.5  # of the slots, as a pool's minShare
MOST_ALLOCATIONS = 6
_FACTOR = 4  # of the timeouts of dynamic allocation
_MOST_SHARES = (0.25, 0.5, 0.75, 1.0, 2.0)
_LEAST_SHARES = (0.0, 0.25, 0.5)
# Of the most executors: what a budget may have.
MOST_GRID = 36


class PoolChange(NamedTuple):
    """Other settings of one pool."""

    name: str
    pool: Pool
    setting: str  # what is changed, as the allocation file calls it

    def applied(self, pools: Pools) -> Pools:
        return Pools({**pools.described, self.name: self.pool})

    def words(self) -> str:
        return f"{self.setting} for pool {self.name!r}"


class AllocationChange(NamedTuple):
    """Other settings of dynamic allocation."""

    setting: str
    """what is changed, as Spark calls it behind `spark.dynamicAllocation.`; "" for nothing"""
    allocation: Allocation

    @property
    def values(self) -> dict[str, str]:
        return dict(part.split("=") for part in self.setting.split(", ") if part)


def pool_changes(pools: Pools, used: list[str], slots: int) -> Iterator[PoolChange]:
    """Yield the changes to try: more weight, half of the slots first, the other mode inside."""
    names = sorted(set(used), key=lambda name: (-used.count(name), name))[:MOST_POOLS]
    if len(names) < 2:
        return
    for name in names:
        pool = pools.named(name)
        weight, share = _HEAVIER * pool.weight, math.ceil(_SHARE * slots)
        if weight <= MAX_WEIGHT:
            yield PoolChange(name, replace(pool, weight=weight), f"weight {weight}")
        if pool.min_share < share:
            yield PoolChange(name, replace(pool, min_share=share), f"minShare {share}")
        mode = "FIFO" if pool.fair else "FAIR"
        yield PoolChange(name, replace(pool, fair=not pool.fair), f"schedulingMode {mode}")


def allocation_changes(recording: Recording, changed: Mapping[str, str]) -> list[AllocationChange]:
    """The log's settings with those `changed` in their place, then changes of them, one at a time.

    Requests, idle executors and fewest executors are changed. Nothing where neither has dynamic
    allocation, or the log's own cannot be modelled.

    Raises:
        TraceError: settings that are `changed` are impossible.
    """
    try:
        base = recording.allocation(0, changed or None)
    except TraceError:
        if changed:
            raise
        return []  # the log names it, no user does: all else can be answered
    if base is None:
        return []
    settings = _settings(recording, changed)
    tried = []
    for names in ((BACKLOG, SUSTAINED), (IDLE,)):
        for factor in (1 / _FACTOR, _FACTOR):
            # Spark takes whole seconds, one at least.
            times_s = [max(1, round(factor * timeout_ms(settings, n) / MS_PER_S)) for n in names]
            tried.append({n: f"{time_s}s" for n, time_s in zip(names, times_s, strict=True)})
    executors = sorted({-(-base.most // 2), base.most})
    tried += [{LEAST: str(least)} for least in executors if least > base.least]
    changes = [AllocationChange("", base)]
    for values in tried:
        model = recording.allocation(0, {**changed, **values})
        if model is not None and model != base:
            changes.append(AllocationChange(_joined(values), model))
    return changes


def allocation_grid(
    recording: Recording,
    changed: Mapping[str, str],
    base: Allocation,
    executors: int,
    least_slots: int,
) -> list[AllocationChange]:
    """What dynamic allocation may have on a budget: the settings of `base`, then other ones.

    Most executors are a quarter to twice `executors`, with `least_slots` at least; the fewest none
    to half of `executors`; the idle timeout is what is set, a quarter, and four times it. Settings
    that are `changed` stand in place of the log's.
    """
    set_s = timeout_ms(_settings(recording, changed), IDLE) / MS_PER_S
    timeouts = [f"{max(1, round(factor * set_s))}s" for factor in (1, 1 / _FACTOR, _FACTOR)]
    least_counts, most_counts = (
        sorted({math.ceil(share * executors) for share in shares})
        for shares in (_LEAST_SHARES, _MOST_SHARES)
    )
    grid = {base: {LEAST: str(base.least), MOST: str(base.most), IDLE: timeouts[0]}}
    for most in most_counts:
        if not least_slots <= most * base.slots_each <= MAX_EXECUTORS:
            continue
        for least, timeout in product(least_counts, timeouts):
            values = {LEAST: str(least), MOST: str(most), IDLE: timeout}
            model = recording.allocation(0, {**changed, **values})
            if least < most and model is not None:
                grid.setdefault(model, values)  # a timeout may make no difference
    return [AllocationChange(_joined(values), model) for model, values in grid.items()]


def _settings(recording: Recording, changed: Mapping[str, str]) -> dict[str, str]:
    return {
        **recording.settings(0),
        **{f"{PREFIX}{name}": value for name, value in changed.items()},
    }


def _joined(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
