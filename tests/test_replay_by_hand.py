"""The replay check from figures made by hand, nothing simulated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from decima.whatif.load import recorded_reference
from decima.whatif.replay import ReplayWorkload, check
from decima.whatif.replay.check import Fidelity, overlapping, relative_error
from decima.whatif.replay.report import fidelity_table, verdict, worst_jobs_table
from spark_sim import Streams
from tests.commands import cells_of
from tests.recordings import recording, varied
from tests.stories import job
from tests.test_whatif_by_hand import checked, recorded


def test_the_replay_tables_by_hand() -> None:
    """Jobs 0, 2 and 4 overlapped; tasks alone took half of what was recorded."""
    check = checked()
    factors = np.array([1.1, 1.02, 0.8, 1.02, 1.6, 0.99])
    check = replace(check, simulated_s=factors * check.recorded_s)
    assert cells_of(fidelity_table(check)) == [
        ["jobs that ran", "jobs", "median |error|", "mean bias", "aim", "without driver times"],
        ["alone", "3", "2.0 %", "+1.0 %", "5 %", "50.0 %, bias -50.0 %"],
        ["overlapping", "3", "20.0 %", "+16.7 %", "9 %", "50.0 %, bias -50.0 %"],
        ["all", "6", "6.0 %", "+8.8 %", "", "50.0 %, bias -50.0 %"],
    ]
    assert cells_of(worst_jobs_table(check, 3)) == [
        ["job", "recorded", "simulated", "error", "tasks alone", "ran"],
        ["job 4", "26.00 s", "41.60 ± 0.25 s", "+60 %", "13.00 s", "overlapping"],
        ["job 2", "5.00 s", "4.00 ± 0.25 s", "-20 %", "2.50 s", "overlapping"],
        ["job 0", "2.00 s", "2.20 ± 0.25 s", "+10 %", "1.00 s", "overlapping"],
    ]
    assert verdict(check).endswith("can be relied on.")
    content = check.to_json()
    assert content["fidelity"]["all"]["bias_percent"] == pytest.approx(8.8333, rel=1e-3)
    assert content["fidelity"]["all"]["tasks_only"]["bias_percent"] == pytest.approx(-50.0)
    assert content["jobs"][4] == {
        "name": "job 4", "recorded_s": 26.0, "simulated_s": pytest.approx(41.6), "spread_s": 0.25,
        "tasks_only_s": 13.0, "overlapped": True, "pool": None, "parts_s": None,
    }  # fmt: skip


def test_who_overlapped_by_hand() -> None:
    """2 of 6 end before the next comes: the first; then 9 < 12, 17 < 18; 30, 50 and 60 overlap."""
    assert overlapping(recorded()).tolist() == [False, False, False, True, True, True]


def test_a_short_job_inside_a_long_one_overlaps() -> None:
    """The second ends long before the third begins; the first goes on."""
    made = recorded()
    ends_ms = dict(zip("012345", (90e3, 7e3, 13e3, 19e3, 25e3, 31e3), strict=True))
    for name, row in made.trace.metadata["recorded"].items():
        row["end_ms"] = ends_ms[name[-1]]
    assert overlapping(made).all()


def test_the_recorded_policy_is_that_of_most_jobs() -> None:
    """Four of six jobs ran under FAIR, however it is written; three are not most."""
    made = recorded()
    (application,) = made.trace.metadata["applications"]
    both = [application, {**application, "settings": {"spark.scheduler.mode": "Fair"}}]
    for first, policy in ((2, "spark_pools"), (3, "fifo")):
        rows = {
            name: {**row, "application": int(number >= first)}
            for number, (name, row) in enumerate(made.trace.metadata["recorded"].items())
        }
        metadata = {**made.trace.metadata, "recorded": rows, "applications": both}
        assert (
            recorded_reference(replace(made, trace=replace(made.trace, metadata=metadata)))
            == policy
        )


def test_a_replay_averages_its_draws() -> None:
    """One task of 0.8 to 1.2 s, drawn three times."""
    made = recording(replace(job("j", varied("s", 1, 1000.0)), arrival_ms=0.0))
    workload = ReplayWorkload.of(made)
    keys = [Streams(0, 0, draw).duration_key() for draw in range(3)]
    drawn_s = [
        workload.jct_s(check.session_cluster(4), "fifo", workload.recorded(), key) for key in keys
    ]
    assert np.std(drawn_s) > 0.05
    report = check.replay(made, check.ReplaySettings(draws=3))
    assert report.simulated_s == pytest.approx(np.mean(drawn_s, axis=0))
    assert report.spread_s == pytest.approx(np.std(drawn_s, axis=0))
    assert report.recorded_s.tolist() == [0.25]


def test_fidelity_by_hand() -> None:
    """Errors of 10, -20, 60 and 2 %: 15 % in the median, 13 % on average."""
    error = relative_error(np.array([11.0, 8.0, 16.0, 10.2]), np.full(4, 10.0))
    fidelity = Fidelity.of(error)
    assert fidelity is not None
    assert fidelity.jobs == 4
    assert fidelity.median_error_percent == pytest.approx(15.0)
    assert fidelity.bias_percent == pytest.approx(13.0)
    assert fidelity.above(14.0) == ["median error"]
    assert fidelity.above(12.0) == ["median error", "mean bias"]
    assert fidelity.above(15.1) == []
    assert Fidelity(4, 1.0, -19.0).above(18.0) == ["mean bias"]
    assert relative_error(np.array([0.002]), np.array([0.0])).tolist() == [2.0]
