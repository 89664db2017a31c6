"""Advice on the pools of Spark's FAIR scheduler: one change, tried in the simulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from decima.whatif import WhatIf, WhatIfSettings, what_if
from decima.whatif.advice import advised
from decima.whatif.changes import PoolChange, pool_changes
from decima.whatif.replay import Recording
from decima.whatif.replay.pools import MAX_WEIGHT, Pool, Pools
from decima.whatif.report import to_json
from tests.recordings import exact, read_events
from tests.spark_events import executor, simple_job
from tests.test_field_logs import FAIR

SETTINGS = WhatIfSettings(
    4, ("spark_pools", "fifo"), draws=2, sequences=12, training=2, held_back=1
)


def recorded(folder: Path, *pools: str) -> Recording:
    """Four slots; of three jobs one has 32 tasks and two have 8, of 100 ms each."""
    events = [FAIR, executor(cores=4)]
    gaps_ms = np.random.default_rng(3).exponential(330.0, 30)
    for number, at in enumerate(np.cumsum(gaps_ms).astype(int).tolist()):
        is_long = number % 3 == 0
        tasks = 32 if is_long else 8
        times = [(at + 100 * (k // 4), at + 100 * (k // 4) + 100) for k in range(tasks)]
        pool = pools[0 if is_long else -1]
        events += simple_job(number, at, times, times[-1][1], spark_scheduler_pool=pool)
    return read_events(folder, *events)


def test_each_pool_gets_weight_slots_and_the_other_mode() -> None:
    """The pools with the most jobs are changed; a single one is left alone."""
    pools = Pools({"a": Pool(weight=2, min_share=3)})
    changes = list(pool_changes(pools, ["a", "b", "b"], 4))
    assert changes == [
        PoolChange("b", Pool(weight=4), "weight 4"),
        PoolChange("b", Pool(min_share=2), "minShare 2"),
        PoolChange("b", Pool(fair=True), "schedulingMode FAIR"),
        PoolChange("a", Pool(weight=8, min_share=3), "weight 8"),
        PoolChange("a", Pool(fair=True, weight=2, min_share=3), "schedulingMode FAIR"),
    ]
    assert changes[1].words() == "minShare 2 for pool 'b'"
    assert list(pool_changes(pools, ["a", "a"], 4)) == []
    heavy = Pools({"a": Pool(weight=MAX_WEIGHT)})
    of_heavy = [
        pool_change for pool_change in pool_changes(heavy, ["a", "b"], 4) if pool_change.name == "a"
    ]
    assert not any(tried.setting.startswith("weight") for tried in of_heavy)
    many = [f"p{number}" for number in range(20)]
    assert {change.name for change in pool_changes(pools, many, 4)} == set(sorted(many)[:6])


def pool_advice(study: WhatIf) -> list[str]:
    changes = advised(study, exact(study))
    return [change.words for change in changes if change.words.startswith("Pools: ")]


def test_the_pool_of_short_jobs_is_advised(tmp_path: Path) -> None:
    """It waits behind the long ones, which hardly notice; without certainty there is no word."""
    study = what_if(recorded(tmp_path, "etl", "web"), SETTINGS, driver_times=False)
    assert study.pools is not None
    change, result = study.pools
    assert change.name == "web"
    assert (result.avg_s < study.reference.avg_s).all()
    assert (result.resampled_avg_s <= study.reference.resampled_avg_s + 1e-9).all()
    (words,) = pool_advice(study)
    assert "for pool 'web' in fairscheduler.xml, average JCT -" in words
    stored = to_json(study)["pools"]
    assert stored["pool"]["name"] == "web"
    assert stored["recorded_avg_jct_s"] == result.avg_s.tolist()
    same = replace(study, pools=(change, study.reference))
    assert pool_advice(same) == []
