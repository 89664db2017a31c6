"""Changes of pools and of dynamic allocation: only what is lower for certain is advised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from decima.whatif.advice import findings, is_pool_change_sure
from decima.whatif.allocation_advice import fastest
from decima.whatif.allocation_changes import AllocationChange, AllocationResult
from decima.whatif.pool_changes import PoolChange, PoolResult
from decima.whatif.replay.pools import Pool
from spark_sim import Allocation
from tests.test_whatif_by_hand import checked, what_was_found
from traces.numbers import Float64

SPREAD = np.array([-1.2, -0.4, 1.0])
"""of three draws; a mean of -0.2 whose interval holds 0"""


def test_a_change_of_a_pool_must_be_lower_for_certain() -> None:
    """20 s on average before: 15 s in every draw is certain, 17 s with a spread is not."""
    found = what_was_found(draws=np.array([1.0, 1.001, 0.999]))
    change = PoolChange("etl", Pool(weight=4), "weight 4")
    lower_s, lower_too_s = np.array([15.0, 15.1, 14.9]), np.array([16.0, 17.0, 16.5])
    unsure_s, unsure_too_s = 18.0 + 4 * SPREAD, 19.0 + 4 * SPREAD
    for recorded_s, resampled_s, is_sure in (
        (lower_s, lower_too_s, True),
        (unsure_s, lower_too_s, False),
        (lower_s, unsure_too_s, False),
    ):
        pools = PoolResult(change, recorded_s, resampled_s)
        assert is_pool_change_sure(replace(found, pools=pools)) == is_sure
        words = " ".join(findings(replace(found, pools=pools), checked()))
        assert ("no tried weight, minShare or mode" in words) == (not is_sure)


def test_a_change_of_allocation_must_be_lower_for_certain() -> None:
    rules = Allocation(slots_each=1, least=0, most=4, first=1, present=1)
    held_s = np.array([100.0, 101.0, 99.0])

    def result_of(setting: str, avg_s: Float64, resampled_s: Float64) -> AllocationResult:
        return AllocationResult(
            AllocationChange(setting, rules), avg_s[:, None], resampled_s, held_s
        )

    base = result_of("", np.array([20.0, 20.1, 19.9]), np.array([21.0, 20.9, 21.1]))
    sure = result_of("minExecutors=4", np.array([15.0, 15.1, 14.9]), np.array([16.0, 17.0, 16.5]))
    unsure = result_of("minExecutors=2", 14.0 + 9 * SPREAD, np.array([16.0, 17.0, 16.5]))
    found = replace(what_was_found(), allocations=(base, unsure))
    assert fastest(found) is None
    assert fastest(replace(found, allocations=(base, unsure, sure))) is sure
