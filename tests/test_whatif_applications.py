"""Several applications on one cluster, solved by hand, and what is found of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from decima.rl.parallel.local import LocalPool
from decima.whatif import ApplicationsSettings, ApplicationsWhatIf, applications_what_if
from decima.whatif.advice import caveats, findings
from decima.whatif.applications.cluster import ClusterRun
from decima.whatif.applications.ways import way_named
from decima.whatif.applications.workload import (
    ApplicationsWorkload,
    cluster_slots,
    measured_delay_ms,
    most_at_once,
    names_of,
)
from decima.whatif.replay import DriverRecord, Recording, ReplaySettings, replay
from decima.whatif.replay.allocation import Behaviour
from decima.whatif.replay.driver import Life
from decima.whatif.replay.pools import Pool, Pools
from decima.whatif.report import applications_json, group_rows, summary_table
from spark_sim import Slots
from tests.commands import cells_of
from tests.recordings import short_behind_long
from traces import Job, Stage, Trace
from traces.spark_log import ImportSummary

Jobs = Sequence[tuple[float, int, float]]
"""arrival in ms, tasks, and the time of each in ms"""


def recorded(*applications: Jobs, slots: int = 2) -> Recording:
    """Applications of jobs of one stage, each with so many slots to itself."""
    jobs = [
        (place, Job(f"{place}/{k}", (Stage.fixed("s", tasks, task_ms),), arrival_ms=at_ms))
        for place, own in enumerate(applications)
        for k, (at_ms, tasks, task_ms) in enumerate(own)
    ]
    jobs.sort(key=lambda row: row[1].arrival_ms or 0.0)
    times = {
        job.name: {
            "application": place,
            "start_ms": job.arrival_ms,
            "end_ms": (job.arrival_ms or 0.0) + job.work_ms / slots,
        }
        for place, job in jobs
    }
    facts = [
        {"name": f"app {n}", "slots": slots, "settings": {}, "spark_version": "4.0.0"}
        for n in range(len(applications))
    ]
    trace = Trace("made", tuple(job for _, job in jobs), {"recorded": times, "applications": facts})
    return Recording(trace, ImportSummary(), tuple(DriverRecord.none(job) for _, job in jobs))


def jct_s(record: Recording, way: str, slots: int = 4, delay_ms: float = 0.0) -> list[float]:
    workload = ApplicationsWorkload.of(record, slots, delay_ms)
    return list(ClusterRun(workload, way_named(way, workload), 0, 0).play().jct_s)


TWO = recorded([(0.0, 8, 10_000.0)], [(0.0, 4, 10_000.0)])
"""eight tasks and four, of 10 s each, on two slots each"""


THREE = recorded(*[[(0.0, 2, 1_000.0)]] * 3)
HELD = replace(TWO, lives=(Life(0.0, 70_000.0, None), Life(0.0, 20_000.0, None)))
IDLE = replace(
    recorded([(0.0, 1, 10_000.0)], [(20_000.0, 1, 10_000.0)]),
    lives=(Life(0.0, 200_000.0, None),) * 2,
)


@pytest.mark.parametrize(
    ("record", "way", "slots", "delay_ms", "ends_s"),
    [
        (TWO, "recorded", 4, 0.0, [40.0, 20.0]),
        (TWO, "static", 4, 0.0, [40.0, 20.0]),
        # The second application waits for the first to end.
        (TWO, "fifo", 4, 0.0, [20.0, 30.0]),
        # One executor each after a second, two more for the first after two; none is left then.
        (TWO, "dynamic", 4, 0.0, [32.0, 41.0]),
        # The first has started three tasks and the second one. Then each has two, to the end: moves
        # cost nothing here, so that all executors are on offer.
        (TWO, "strict_fair", 4, 0.0, [40.0, 30.0]),
        (TWO, "alone", 4, 0.0, [20.0, 10.0]),
        # Executors take their time to come, but those that were recorded were there.
        (TWO, "static", 4, 5_000.0, [45.0, 25.0]),
        (TWO, "fifo", 4, 5_000.0, [25.0, 40.0]),
        (TWO, "recorded", 4, 5_000.0, [40.0, 20.0]),
        # A static share is one executor at least: of three applications one waits.
        (THREE, "static", 2, 0.0, [2.0, 2.0, 4.0]),
        # Executors are held until the application ends: 20 s of work and 30 s without.
        (HELD, "fifo", 4, 0.0, [20.0, 60.0]),
        # An idle one goes after a minute: it came at 1 s and was idle from 11 s on; the other
        # application waits for it until 71 s.
        (IDLE, "dynamic", 1, 0.0, [11.0, 61.0]),
    ],
)
def test_applications_share_executors_as_by_hand(
    record: Recording, way: str, slots: int, delay_ms: float, ends_s: list[float]
) -> None:
    assert jct_s(record, way, slots, delay_ms) == pytest.approx(ends_s)


def test_an_executor_that_leaves_finishes_its_task() -> None:
    """Two slots, one from 5 s on: two tasks end at 10 s, the other two one after the other."""
    record = recorded([(0.0, 4, 10_000.0)], [(0.0, 1, 1_000.0)])
    curves = (
        Slots(np.array([0.0, 5_000.0]), np.array([2, 1])),
        Slots(np.zeros(1), np.ones(1, int)),
    )
    assert jct_s(replace(record, curves=curves), "recorded") == pytest.approx([30.0, 1.0])


def test_a_client_that_waits_submits_after_the_end() -> None:
    """The second job comes 5 s after the first, however long that takes."""
    record = recorded([(0.0, 2, 10_000.0), (15_000.0, 2, 10_000.0)], [(0.0, 2, 10_000.0)])
    follows = tuple(0 if job.name == "0/1" else -1 for job in record.trace.jobs)
    workload = ApplicationsWorkload.of(replace(record, follows=follows), 1, 0.0)
    run = ClusterRun(workload, way_named("fifo", workload), 0, 0)
    times = dict(zip((job.name for job in record.trace.jobs), run.play().jct_s, strict=True))
    assert times == pytest.approx({"0/0": 20.0, "0/1": 20.0, "1/0": 65.0})


@pytest.mark.parametrize("mode", ["FIFO", "FAIR", "pools"])
def test_inside_an_application_tasks_go_as_in_the_replay(mode: str) -> None:
    """One application alone is a shared session, under each of Spark's orders."""
    record = short_behind_long()
    facts = {**record.trace.metadata["applications"][0]}
    facts["settings"] = {"spark.scheduler.mode": "FIFO" if mode == "FIFO" else "FAIR"}
    trace = replace(record.trace, metadata={**record.trace.metadata, "applications": [facts]})
    names = ["heavy" if k % 4 == 0 else "light" for k in range(len(record.driver))]
    if mode == "FAIR":
        names = [f"p{k}" for k in range(len(names))]
    driver = tuple(
        replace(record_of, pool=name) for record_of, name in zip(record.driver, names, strict=True)
    )
    pools = Pools({"light": Pool(weight=3), "heavy": Pool(fair=True, min_share=1)})
    record = replace(
        record, trace=trace, driver=driver, given_pools=pools if mode == "pools" else None
    )
    expected_s = replay(record, ReplaySettings(draws=1)).simulated_s
    assert jct_s(record, "recorded") == pytest.approx(expected_s.tolist())


def test_the_cluster_is_as_large_as_its_applications_at_once() -> None:
    """One after the other they had the same executors."""
    assert (cluster_slots(TWO), most_at_once(TWO)) == (4, 2)
    lives = (Life(0.0, 40_000.0, None), Life(40_000.0, 60_000.0, None))
    after = replace(TWO, lives=lives)
    assert (cluster_slots(after), most_at_once(after)) == (2, 1)


def test_the_moving_delay_is_measured_where_logs_show_it() -> None:
    """From request to executor under dynamic allocation, else the quickest first executor."""
    assert measured_delay_ms(TWO) is None
    lives = (Life(-9_000.0, 40_000.0, 7_000.0), Life(-9_000.0, 20_000.0, 4_000.0))
    assert measured_delay_ms(replace(TWO, lives=lives)) == 4_000.0
    metadata = {**TWO.trace.metadata}
    settings = {"spark.dynamicAllocation.enabled": "true"}
    metadata["applications"] = [
        {**application, "settings": settings} for application in metadata["applications"]
    ]
    behaviours = (Behaviour(1, 3_000.0, None, False), Behaviour(1, None, None, False))
    dynamic = replace(
        TWO, trace=replace(TWO.trace, metadata=metadata), lives=lives, behaviours=behaviours
    )
    assert measured_delay_ms(dynamic) == 3_000.0


def test_on_a_full_cluster_the_moving_delay_is_that_of_the_executors_that_moved() -> None:
    """From when one goes to the next one in its place; an idle application asked for none."""
    record = recorded([(0.0, 2, 10_000.0)], [(0.0, 2, 30_000.0), (90_000.0, 2, 5_000.0)])
    lives = (Life(-9_000.0, 10_000.0, 1_000.0), Life(-9_000.0, 100_000.0, 25_000.0))
    curves = (
        Slots(np.array([-9_000.0, -8_000.0]), np.array([0, 2])),
        Slots(np.array([-9_000.0, 16_000.0, 40_000.0, 70_000.0]), np.array([0, 2, 1, 2])),
    )
    full = replace(record, lives=lives, curves=curves)
    assert (
        measured_delay_ms(replace(full, lives=(lives[0]._replace(executor_ms=None), lives[1])))
        == 6_000.0
    )
    assert measured_delay_ms(full) == 1_000.0


def test_applications_of_one_name_are_numbered() -> None:
    metadata = {"applications": [{"name": name} for name in ("etl", "ad hoc", "etl", "etl")]}
    renamed = replace(TWO, trace=replace(TWO.trace, metadata=metadata))
    assert names_of(renamed) == ["etl", "ad hoc", "etl #2", "etl #3"]


# --- findings ---------------------------------------------------------------------------------


def alternating() -> Recording:
    """Two applications that work by turns, eight tasks of 3 s in each, and a third that waits."""
    turns = [[(20_000.0 * (2 * k + place), 8, 3_000.0) for k in range(12)] for place in (0, 1)]
    record = recorded(*turns, [(5_000.0, 1, 1_000.0)], slots=2)
    return replace(record, lives=(Life(0.0, 500_000.0, None),) * 3)


@pytest.fixture(scope="module")
def studied() -> ApplicationsWhatIf:
    settings = ApplicationsSettings(6, draws=2, moving_delay_s=0.5)
    return applications_what_if(alternating(), settings)


def test_the_verdict_who_gains_and_how(studied: ApplicationsWhatIf) -> None:
    check = studied.check()
    verdict, who, how = findings(studied, check)
    best = studied.best()
    assert best in ("strict_fair", "decima")
    assert verdict.startswith(f"{best} instead of recorded: average JCT -")
    assert "Waiting for other applications is" in verdict
    assert who.startswith("For whom: of 3 applications, 2 faster (app ")
    assert how.startswith(f"How: decima coordinate --slots 6 --policy {best}")
    assert not any("an assumption" in line for line in caveats(studied, check))
    assumed = replace(studied, settings=replace(studied.settings, moving_delay_s=None))
    assert any("0.50 s to come: an assumption" in line for line in caveats(assumed, check))
    assert [row[0] for row in cells_of(summary_table(studied))][1:] == [
        *studied.settings.policies,
        "whole cluster each",
    ]


def test_groups_are_applications(studied: ApplicationsWhatIf) -> None:
    """Under FIFO the first has the whole cluster."""
    rows = {name: (jobs, cells) for name, jobs, cells in group_rows(studied)}
    assert list(rows) == ["app 0", "app 1", "app 2"]
    assert sum(jobs for jobs, _ in rows.values()) == 25
    place = studied.settings.policies.index("fifo")
    assert rows["app 0"][1][place].versus.startswith("-")
    assert rows["app 2"][1][place].value > 2 * rows["app 2"][1][0].value


def test_processes_and_repeats_change_nothing(studied: ApplicationsWhatIf) -> None:
    with LocalPool(2) as pool:
        again = applications_what_if(alternating(), studied.settings, pool=pool)
    assert applications_json(again) == applications_json(studied)
