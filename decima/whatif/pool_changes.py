"""Changes of one pool's settings in Spark's allocation file, to be tried by `decima whatif`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from decima.whatif.replay.pools import MAX_WEIGHT, Pool, Pools
from traces.numbers import Float64

MOST_POOLS = 6  # pools that are tried, those with the most jobs
_HEAVIER = 4
_SHARE = 0.5  # of the slots, as a pool's minShare


class PoolChange(NamedTuple):
    """Other settings of one pool."""

    name: str
    pool: Pool
    setting: str  # what is changed, as the allocation file calls it

    def applied(self, pools: Pools) -> Pools:
        """Return all pools with this one changed."""
        return Pools({**pools.described, self.name: self.pool})

    def words(self) -> str:
        """Describe the change, in the terms of the allocation file."""
        return f"{self.setting} for pool {self.name!r}"


class PoolResult(NamedTuple):
    """Results of the best change."""

    change: PoolChange
    recorded_avg_s: Float64  # (draws,) average JCT with the recorded arrivals
    resampled_avg_s: Float64  # (sequences,) with resampled arrivals


def changes(pools: Pools, used: list[str], slots: int) -> Iterator[PoolChange]:
    """Yield the changes to try: more weight, half of the slots first, the other mode inside."""
    names = sorted(set(used), key=lambda name: (-used.count(name), name))[:MOST_POOLS]
    if len(names) < 2:
        return
    for name in names:
        own = pools.named(name)
        weight, share = _HEAVIER * own.weight, math.ceil(_SHARE * slots)
        if weight <= MAX_WEIGHT:
            yield PoolChange(name, replace(own, weight=weight), f"weight {weight}")
        if own.min_share < share:
            yield PoolChange(name, replace(own, min_share=share), f"minShare {share}")
        mode = "FIFO" if own.fair else "FAIR"
        yield PoolChange(name, replace(own, fair=not own.fair), f"schedulingMode {mode}")
