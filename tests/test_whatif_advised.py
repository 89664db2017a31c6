"""Advice as lines of settings: what to write where, in the forms that Spark and the plugin read;
and the change of a pool that is advised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files as resources
from pathlib import Path

import numpy as np
import pytest

from decima.registry import HEURISTICS
from decima.report.page import page
from decima.report.whatif import whatif_section
from decima.training.tuning import read_tuned
from decima.whatif import WhatIf, WhatIfSettings, what_if
from decima.whatif.advice import advised, findings, headline
from decima.whatif.changes import AllocationChange, PoolChange, pool_changes
from decima.whatif.replay import Recording
from decima.whatif.replay.check import Fidelity
from decima.whatif.replay.pools import MAX_WEIGHT, Pool, Pools, read_pools
from decima.whatif.report import to_json
from decima.whatif.results import Result
from decima.whatif.settings import ApplicationsSettings
from decima.whatif.spark_settings import allocation_files, budget_files, policy_files, pool_files
from decima.whatif.study import applications_what_if
from spark_sim import Allocation
from tests.commands import parsed
from tests.recordings import exact, read_events
from tests.spark_events import executor, simple_job
from tests.test_field_logs import FAIR
from tests.test_whatif_applications import alternating
from tests.test_whatif_by_hand import TUNED, checked, what_was_found

ALL = ([9.0] * 6, [18.0, 19.7, 19.0])
FIFO = ([10.0] * 6, [20.0, 22.0, 21.0])
TRIAL = {"spark.decima.mode": "shadow", "spark.decima.decisionLog": "/path/to/day.jsonl"}
PLUGIN = {
    "spark.jars": "/path/to/decima-spark.jar",
    "spark.plugins": "decima.spark.DecimaPlugin",
}
PRIORS = {
    "spark.decima.python": "/path/to/python",
    "spark.decima.priors": "/path/to/priors.parquet",
}


def settings_of(files: Mapping[str, str]) -> dict[str, str]:
    """The settings in `spark-defaults.conf`: a name, a blank and a value in each line."""
    lines = files["spark-defaults.conf"].splitlines()
    return dict(line.split(" ", 1) for line in lines if not line.startswith("#"))


def test_a_policy_of_the_jvm_needs_the_plugin_and_its_tuned_parameters(tmp_path: Path) -> None:
    study = what_was_found(tuned=TUNED)
    (change,) = advised(study, checked())
    assert change.words == headline(study, checked())
    assert settings_of(change.files) == {
        **PLUGIN, "spark.decima.policy": "tuned_srw",
        "spark.decima.parameters": "/path/to/tuned.json", **PRIORS, **TRIAL,
    }  # fmt: skip
    path = tmp_path / "tuned.json"
    path.write_text(change.files["tuned.json"])
    assert read_tuned(path) == ("tuned_srw", TUNED["tuned_srw"])
    commands = [parsed(line) for line in change.files["command line"].splitlines()]
    assert [values["output"] for values in commands] == ["decima-spark.jar", "priors.parquet"]
    text = page([whatif_section(study, checked())], title="t", command="c")
    assert "spark.decima.policy tuned_srw" in text


@pytest.mark.parametrize(
    ("best", "settings"),
    [
        ("fifo", {"spark.scheduler.mode": "FIFO"}),
        ("spark_fair", {"spark.scheduler.mode": "FAIR"}),
        ("spark_pools", {"spark.scheduler.mode": "FAIR"}),
        ("es_rule", {**PLUGIN, "spark.decima.policy": "es_rule", **TRIAL}),
        (
            "tuned_weighted_fair",
            {
                **PLUGIN,
                "spark.decima.policy": "tuned_weighted_fair",
                "spark.decima.python": "/path/to/python",
                **TRIAL,
            },
        ),
    ],
)
def test_each_policy_has_its_settings(best: str, settings: dict[str, str]) -> None:
    """Shipped parameters need no file, and a policy that is not in the JVM needs Python.

    Durations from earlier runs are named where the study's policies knew them.
    """
    policies, shipped = {"strict_fair": FIFO, best: ALL}, {}
    if best in HEURISTICS:
        shipped[best] = HEURISTICS[best].defaults
    study = what_was_found(policies=policies, tuned=shipped, estimates="none")
    files = policy_files(study, best)
    assert settings_of(files) == settings
    knowing = settings_of(policy_files(what_was_found(policies=policies), best))
    assert knowing == (settings | PRIORS if "spark.plugins" in settings else settings)
    assert ("the program of each job" in files) == (best == "spark_fair")
    if best != "spark_pools":  # which the protocol does not know
        apart = what_was_found(policies=policies, protocol="executors")
        assert policy_files(apart, best) == budget_files(apart, best, 2) == {}


def test_jobs_of_several_applications_have_no_scheduler_in_common() -> None:
    study = what_was_found(policies={"strict_fair": FIFO, "es_rule": ALL})
    pooled = replace(study, recording=alternating())
    assert len(pooled.recording.slots) > 1
    assert policy_files(pooled, "es_rule") == budget_files(pooled, "es_rule", 2) == {}


def test_pools_come_with_their_file(tmp_path: Path) -> None:
    study = what_was_found(policies={"strict_fair": FIFO, "spark_pools": ALL})
    pools = Pools({'etl"<&': Pool(weight=4, min_share=2), "default": Pool(fair=True)})
    study = replace(study, recording=replace(study.recording, given_pools=pools))
    files = policy_files(study, "spark_pools")
    assert settings_of(files)["spark.scheduler.allocation.file"].endswith("fairscheduler.xml")
    path = tmp_path / "fairscheduler.xml"
    path.write_text(files["fairscheduler.xml"])
    assert read_pools(path) == pools


def test_fewer_executors_wait_for_the_policy_that_makes_them_enough() -> None:
    """In shadow mode the former policy would have them."""
    study = what_was_found(policies={"fifo": FIFO, "es_rule": ALL})
    assert settings_of(budget_files(study, "es_rule", 2)) == settings_of(
        policy_files(study, "es_rule")
    )
    later = budget_files(study, "es_rule", 2)["spark-defaults.conf"].splitlines()[-3:]
    assert later == [
        "# once the mode is exact:",
        "# spark.dynamicAllocation.enabled false",
        "# spark.executor.instances 2",
    ]


def test_the_plugin_knows_every_setting_that_is_printed() -> None:
    """Names as `Settings.java` has them; an unknown one would stop the application."""
    known = resources("decima.spark").joinpath("java/plugin/Settings.java").read_text()
    divided = ApplicationsSettings(6, ("recorded", "strict_fair"), draws=1, moving_delay_s=0.5)
    printed = [
        policy_files(what_was_found(tuned=TUNED), "tuned_srw"),
        policy_files(what_was_found(), "tuned_weighted_fair"),
        policy_files(applications_what_if(alternating(), divided), "strict_fair"),
    ]
    names = {name for files in printed for name in settings_of(files) if "decima" in name}
    assert len(names) == 8
    for name in names:
        assert f'"{name.removeprefix("spark.decima.")}"' in known


def test_nothing_is_advised_where_there_is_no_other_policy() -> None:
    assert list(advised(what_was_found(policies={"fifo": FIFO}), checked())) == []


def test_a_pool_is_changed_in_the_file_of_all_pools(tmp_path: Path) -> None:
    change = PoolChange("etl", Pool(weight=4), "weight 4")
    study = what_was_found()
    study = replace(study, pools=(change, study.policies["tuned_srw"]))
    changes = list(advised(study, checked()))[1]
    assert changes.words.startswith("Pools: with weight 4 for pool 'etl' in fairscheduler.xml, ")
    assert changes.files == pool_files(study, change)
    assert settings_of(changes.files)["spark.scheduler.mode"] == "FAIR"
    path = tmp_path / "fairscheduler.xml"
    path.write_text(changes.files["fairscheduler.xml"])
    assert read_pools(path) == change.applied(study.recording.pools(0))


@pytest.mark.parametrize("is_repeated", [True, False])
def test_allocation_is_advised_where_its_model_repeats_the_recording(
    monkeypatch: pytest.MonkeyPatch, is_repeated: bool
) -> None:
    """15 s on average in place of 20 s, for more slot time; 19.9 s for half of it is cheaper."""
    fidelity = Fidelity.of(np.array([0.01 if is_repeated else 0.9]))
    monkeypatch.setattr("decima.whatif.advice.allocation_fidelity", lambda _: fidelity)

    def outcome(jct_s: float, held_s: float) -> Result:
        even = np.array([1.0, 1.001, 0.999])
        return Result(jct_s * even[:, None], jct_s * even, held_s=held_s * even)

    rules = Allocation(slots_each=1, least=0, most=4, first=1, present=1)
    study = replace(
        what_was_found(draws=np.array([1.0, 1.001, 0.999])),
        allocations=(
            (AllocationChange("", rules), outcome(20.0, 100.0)),
            (AllocationChange("minExecutors=4", rules), outcome(15.0, 150.0)),
            (AllocationChange("executorIdleTimeout=5s", rules), outcome(19.9, 50.0)),
        ),
    )
    changes = {
        change.words.partition(":")[0]: settings_of(change.files)
        for change in advised(study, checked())
        if change.words.startswith("Allocation")
    }
    wanted = {
        "Allocation, faster": {"spark.dynamicAllocation.minExecutors": "4"},
        "Allocation, cheaper": {"spark.dynamicAllocation.executorIdleTimeout": "5s"},
    }
    for lines in wanted.values():
        lines["spark.dynamicAllocation.enabled"] = "true"
    assert changes == (wanted if is_repeated else {})
    words = " ".join(findings(study, checked()))
    assert ("an executor comes" in words) == is_repeated
    assert ("no advice on its settings" in words) != is_repeated


def test_allocation_is_changed_with_what_was_assumed() -> None:
    """Settings that the study was asked to assume are Spark's, but for measured ones."""
    study = what_was_found(allocation={"maxExecutors": "9", "executorStart": "4s"})
    rules = Allocation(slots_each=1, least=2, most=9, first=2, present=2)
    change = AllocationChange("executorIdleTimeout=15s, minExecutors=2", rules)
    assert settings_of(allocation_files(study, change)) == {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": "9",
        "spark.dynamicAllocation.executorIdleTimeout": "15s",
        "spark.dynamicAllocation.minExecutors": "2",
    }


def test_a_division_is_a_maximum_or_a_coordinator() -> None:
    settings = ApplicationsSettings(
        6, ("recorded", "static", "fifo", "dynamic", "strict_fair"), draws=2, moving_delay_s=0.5
    )
    study = applications_what_if(alternating(), settings)
    files = {way: policy_files(study, way) for way in settings.policies[1:]}
    cores = max(1, 6 // study.workload.at_once) * study.workload.slots_each
    assert settings_of(files["static"]) == {
        "spark.dynamicAllocation.enabled": "false", "spark.cores.max": str(cores),
    }  # fmt: skip
    assert settings_of(files["fifo"]) == {"spark.dynamicAllocation.enabled": "false"}
    assert settings_of(files["dynamic"])["spark.dynamicAllocation.enabled"] == "true"
    assert settings_of(files["strict_fair"]) == {
        **PLUGIN,
        "spark.decima.coordinator": "127.0.0.1:7087",
        "spark.decima.coordinatorSecretFile": "/path/to/secret",
        "spark.executor.cores": str(study.workload.slots_each),
        "spark.cores.max": str(6 * study.workload.slots_each),
        "spark.dynamicAllocation.enabled": "false",
        "spark.shuffle.service.enabled": "true",
    }
    _, command = files["strict_fair"]["command line"].splitlines()
    values = parsed(command)
    assert (values["policy"], values["secret_file"]) == ("strict_fair", "secret")
    assert int(values["slots"]) == 6


# --- one change of the pools of Spark's FAIR scheduler, tried in the simulator --------------------


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
