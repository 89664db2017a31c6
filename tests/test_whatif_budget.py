"""The executors that keep a p95, fixed or dynamic, and their cost, known by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decima.report.figures import write_figures
from decima.report.page import page
from decima.report.whatif import budget_section
from decima.whatif import WhatIf, what_if
from decima.whatif.budget import (
    Budget,
    Terms,
    budget,
    budget_table,
    is_assumption_trusted,
    numbers_tried,
    span_s,
)
from decima.whatif.replay import ReplayWorkload
from spark_sim import Slots
from tests.commands import cells_of, decima, succeeded
from tests.recordings import FAST, never_meeting, recording
from tests.test_allocation import TASKS, recorded
from tests.test_cli_whatif import REAL
from traces import Job, Stage

HOUR_S = 3600.0


@pytest.fixture(scope="module")
def study() -> WhatIf:
    """Three jobs of four tasks of 1 s, a minute apart, on 4 slots: each takes 1 s."""
    return what_if(never_meeting(3), replace(FAST, policies=("fifo", "spark_fair")))


@pytest.fixture(scope="module")
def planned(study: WhatIf) -> Budget:
    return budget(study, Terms(price=HOUR_S))


def test_fewer_executors_take_longer_and_cost_less(planned: Budget) -> None:
    """On n slots a job takes ceil(4 / n) s, and n executors run for 120 s and the last job."""
    assert planned.executors == (1, 2, 3, 4, 5, 6, 8)
    times_s = np.array([4.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    for policy in ("fifo", "spark_fair"):
        assert planned.p95_s[policy] == pytest.approx(np.tile(times_s, (3, 1)).T)
        cost = np.array(planned.executors) * (120.0 + times_s)
        assert planned.cost[policy] == pytest.approx(np.tile(cost, (3, 1)).T)
    assert planned.base.cost == pytest.approx(4 * 121.0)


def test_the_p95_needs_all_executors_and_a_deadline_fewer(study: WhatIf, planned: Budget) -> None:
    assert planned.fewest("fifo") == planned.executors.index(4)
    assert planned.words() is None, "nothing is cheaper than the baseline"
    assert planned.files() == {}
    in_time = replace(planned, terms=Terms(HOUR_S, deadline_s=2.5))
    assert in_time.fewest("fifo") == in_time.executors.index(2)
    words = in_time.words() or ""
    assert [part for part in ("fifo on 2 executors", "2.5 s", "-50 %") if part not in words] == []
    assert in_time.files() == {
        "spark-defaults.conf": "spark.dynamicAllocation.enabled false\nspark.executor.instances 2"
    }
    never = replace(planned, terms=Terms(HOUR_S, deadline_s=0.5))
    assert never.fewest("fifo") is None
    assert cells_of(budget_table(never))[1:] == [
        ["fifo, baseline", "4", "4", "1.00 s", "0.13", "484.00", ""],
        ["fifo", "more than 8", "", "", "", "", ""],
        ["spark_fair", "more than 8", "", "", "", "", ""],
    ]


def test_a_number_that_keeps_the_p95_by_luck_does_not_count(planned: Budget) -> None:
    """Two executors are quick in the draws, and three are not: four are the fewest."""
    lucky = planned.p95_s["fifo"].copy()
    lucky[1] = 0.9
    lucky_study = replace(planned, p95_s={**planned.p95_s, "fifo": lucky})
    assert lucky_study.fewest("fifo") == lucky_study.executors.index(4)


def test_what_is_kept_or_saved_is_so_for_certain(planned: Budget) -> None:
    """Lower on average, with an interval that holds the other side, is neither."""
    spread = np.array([0.7, 0.9, 1.3])  # 0.97 on average
    p95_s = planned.p95_s["fifo"].copy()
    four = planned.executors.index(4)
    p95_s[four] = spread
    altered = replace(planned, p95_s={"fifo": p95_s}, cost={"fifo": planned.cost["fifo"]})
    assert altered.fewest("fifo") == four + 1
    in_time = replace(altered, terms=Terms(HOUR_S, deadline_s=1.0))
    assert in_time.fewest("fifo") == four + 1
    late = replace(planned, terms=Terms(HOUR_S, deadline_s=2.5))
    unsure = planned.base.cost[0] * spread
    cost = {policy: np.tile(unsure, (7, 1)) for policy in planned.cost}
    assert late.cheapest() is not None
    assert replace(late, cost=cost).cheapest() is None


def test_another_policy_comes_with_its_settings(planned: Budget) -> None:
    quick = {**planned.p95_s, "spark_fair": np.full((7, 3), 0.5)}
    quicker = replace(planned, p95_s=quick)
    best = quicker.cheapest()
    assert best is not None
    assert (best.policy, best.executors) == ("spark_fair", 1)
    assert quicker.files()["spark-defaults.conf"].splitlines() == [
        "spark.scheduler.mode FAIR",
        "spark.dynamicAllocation.enabled false",
        "spark.executor.instances 1",
    ]


def test_executors_of_several_slots_are_whole(study: WhatIf) -> None:
    settings = replace(study.settings, executors=10)
    assert numbers_tried(settings, 4) == (1, 2, 3, 4, 5, 6)
    assert numbers_tried(replace(settings, least_slots=8), 4) == (2, 3, 4, 5, 6)


def test_clients_that_wait_come_later_on_fewer_executors() -> None:
    """Each of three jobs comes 59 s after the end of the one before."""
    waiting = replace(never_meeting(3), follows=(-1, 0, 1))
    workload = ReplayWorkload.of(waiting)
    assert span_s(workload, np.array([[1.0] * 3, [4.0] * 3])).tolist() == [121.0, 130.0]


def test_slots_that_went_cost_nothing() -> None:
    """Four slots for a minute, then two: the baseline pays for what was there."""
    curve = Slots(np.array([0.0, 60_000.0]), np.array([4, 2]))
    going = replace(never_meeting(3), curves=(curve,))
    settings = replace(FAST, policies=("fifo",), slots_vary=True)
    planned_for = budget(what_if(going, settings), Terms(HOUR_S))
    assert planned_for.base.cost == pytest.approx(np.full(3, 4 * 60.0 + 2 * 62.0))
    assert planned_for.caveat() is not None


def test_executors_of_two_slots_and_the_95th_percentile() -> None:
    """Jobs of 1, 2, ... 20 s a minute apart, the first after 7 s; each task takes two slots."""
    jobs = [
        Job(
            f"job {k}",
            (replace(Stage.fixed("s", 1, 1000.0 * (k + 1)), slots=2),),
            arrival_ms=7e3 + 6e4 * k,
        )
        for k in range(20)
    ]
    planned_for = budget(
        what_if(recording(*jobs), replace(FAST, policies=("fifo",))), Terms(HOUR_S)
    )
    assert planned_for.slots_each == 2
    assert planned_for.executors == (1, 2, 3, 4)
    row = planned_for.executors.index(2)
    assert planned_for.p95_s["fifo"][row] == pytest.approx(
        np.full(3, np.percentile(range(1, 21), 95))
    )
    assert planned_for.cost["fifo"][row] == pytest.approx(np.full(3, 2 * (19 * 60.0 + 20.0)))
    assert planned_for.base.cost == pytest.approx(np.full(3, 2 * (19 * 60.0 + 20.0)))
    cells = cells_of(budget_table(planned_for))
    assert cells[1][:3] == ["fifo, baseline", "2", "4"]
    assert cells[2][2] == str(2 * int(cells[2][1]))


# --- dynamic allocation -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def allocated(tmp_path_factory: pytest.TempPathFactory) -> Budget:
    """Ten jobs of `TASKS` of 1 s, each on an executor that comes after 4 s and goes 60 s later."""
    settings = replace(FAST, policies=("fifo", "decima"), executors=1, slots_vary=True)
    log = recorded(tmp_path_factory.mktemp("log"))
    return budget(what_if(log, settings), Terms(price=HOUR_S))


def test_settings_of_dynamic_allocation_are_tried_and_cost_what_is_held(allocated: Budget) -> None:
    """An executor is held from its request, 3 s before it comes, until it was idle for long enough.

    With a quarter of the idle timeout jobs take as long: none meets the executor of another.
    """
    tasks_s = np.array(TASKS, float)
    assert [option.cell() for option in allocated.dynamic["fifo"]] == [
        f"{bounds}, idle {idle_s}s"
        for bounds in ("0 to 1", "0 to 2", "1 to 2")
        for idle_s in (60, 15, 240)
    ]
    assert allocated.base.p95_s == pytest.approx(np.percentile(4 + tasks_s, 95))
    held_s = (3 + tasks_s).sum()
    assert allocated.base.cost == pytest.approx(held_s + 9 * 60.0)
    for policy in ("fifo", "decima"):
        best = allocated.allocated(policy)
        assert best is not None
        assert best.cell() == "0 to 1, idle 15s"
        assert best.p95_s == pytest.approx(allocated.base.p95_s)
        assert best.cost == pytest.approx(held_s + 9 * 15.0)
    assert cells_of(budget_table(allocated))[1][:3] == ["fifo, baseline", "0 to 1, idle 60s", "1"]
    assert [row[1] for row in cells_of(budget_table(allocated))[2:]] == [
        "1",
        "0 to 1, idle 15s",
    ] * 2


def test_cheaper_settings_are_advised_with_their_lines(allocated: Budget) -> None:
    words = allocated.words()
    assert words is not None
    assert "fifo on 0 to 1 executors that go after 15s idle keeps the p95 of fifo" in words
    assert allocated.files() == {
        "spark-defaults.conf": "spark.dynamicAllocation.enabled true\n"
        "spark.dynamicAllocation.minExecutors 0\n"
        "spark.dynamicAllocation.maxExecutors 1\n"
        "spark.dynamicAllocation.executorIdleTimeout 15s"
    }
    content = allocated.to_json()
    assert json.loads(json.dumps(content)) == content
    setting = "minExecutors=0, maxExecutors=1, executorIdleTimeout=15s"
    assert content["policies"]["fifo"]["allocation"] == setting
    assert content["policies"]["fifo"]["allocations"][1]["setting"] == setting
    section = budget_section(allocated)
    drawn = section.charts[0].to_json()["series"]
    assert set(drawn["y"]) == {"fifo", "decima", "fifo, dynamic", "decima, dynamic"}
    assert words in page([section], title="t", command="c")


def test_a_deadline_that_needs_executors_that_stay(allocated: Budget) -> None:
    """With one executor always there, a job of up to 8 tasks ends in 8 s; but the first waits."""
    in_time = replace(allocated, terms=Terms(HOUR_S, deadline_s=9.0))
    kept = [option.cell() for option in in_time.dynamic["fifo"] if in_time.keeps(option.p95_s)]
    assert "0 to 1, idle 15s" not in kept
    assert "1 to 2, idle 15s" in kept


def test_settings_keep_the_p95_for_certain_and_in_all_draws(allocated: Budget) -> None:
    """Lower on average is not enough, and a look of few draws neither."""
    base_s = float(allocated.base.p95_s.mean())
    (setting,) = (
        option for option in allocated.dynamic["fifo"] if option.cell() == "0 to 1, idle 15s"
    )
    unsure = replace(setting, p95_s=base_s * np.array([0.7, 0.9, 1.3]))
    assert replace(allocated, dynamic={"fifo": [unsure]}).allocated("fifo") is None
    sure = replace(setting, p95_s=base_s * np.array([0.78, 0.8, 0.82]))
    assert replace(allocated, dynamic={"fifo": [unsure, sure]}).allocated("fifo") == sure
    looked_at = replace(sure, p95_s=sure.p95_s[:2], cost=sure.cost[:2])
    priced = replace(allocated, dynamic={"fifo": [looked_at], "decima": []})
    assert priced.allocated("fifo") is None
    assert cells_of(budget_table(priced))[3][:2] == ["fifo", "none of 1 settings"]


def test_a_log_without_dynamic_allocation_is_the_baseline_of_one_that_is_assumed() -> None:
    """Three jobs a minute apart on 4 slots: with the defaults all executors go between them."""
    asked = {"executorIdleTimeout": "20s", "executorStart": "1s"}
    settings = replace(FAST, policies=("fifo",), allocation=asked)
    priced = budget(what_if(never_meeting(3), settings), Terms(HOUR_S, deadline_s=6.0))
    assert priced.base.change is None
    assert priced.base.p95_s == pytest.approx(1.0)
    assert priced.base.cost == pytest.approx(4 * 121.0)
    best = priced.cheapest()
    assert best is not None
    assert best.change is not None
    assert priced.files()["spark-defaults.conf"].splitlines() == [
        "spark.dynamicAllocation.enabled true",
        "spark.dynamicAllocation.executorIdleTimeout 5s",
        "spark.dynamicAllocation.minExecutors 0",
        "spark.dynamicAllocation.maxExecutors 1",
        "spark.dynamicAllocation.shuffleTracking.enabled true",
    ]
    caveat = priced.caveat()
    assert caveat is not None
    assert "taken to come 1.00 s after its request" in caveat


def test_a_model_that_fails_prices_nothing_or_fixed_executors_only(tmp_path: Path) -> None:
    """Nothing if the study rests on it; the log is of executors that came after 3 s."""
    log = recorded(tmp_path)
    late = {"executorStart": "60s"}
    study = what_if(log, replace(FAST, policies=("fifo",), executors=1, allocation=late))
    assert not is_assumption_trusted(study)
    few = ["--draws", 1, "--sequences", 1, "--policies", "fifo", "--price", 1]
    command = ["whatif", tmp_path / "log", *few, "--allocation", "executorStart=60s"]
    result = succeeded(decima(*command))
    assert "No cost estimate: the error of the model of dynamic allocation" in result.output
    varying = what_if(log, replace(FAST, policies=("fifo",), executors=1, slots_vary=True))
    worse = tuple(
        (change, replace(result, jct_s=9 * result.jct_s)) for change, result in varying.allocations
    )
    priced = budget(replace(varying, allocations=worse), Terms(HOUR_S))
    assert priced.dynamic == {}
    assert priced.base.change is None
    caveat = priced.caveat()
    assert caveat is not None
    assert "not tried, since its model" in caveat


def test_the_page_and_the_json_of_a_budget(planned: Budget) -> None:
    section = budget_section(planned)
    (chart,) = section.charts
    drawn = chart.to_json()
    costs = [
        x for x, y in zip(drawn["series"]["x"], drawn["series"]["y"]["fifo"], strict=True) if y
    ]
    assert costs == sorted(planned.cost["fifo"].mean(axis=1).tolist())
    assert "On a budget" in page([section], title="t", command="c")
    content = planned.to_json()
    assert json.loads(json.dumps(content)) == content
    assert content["policies"]["fifo"]["fewest_executors"] == 4


def test_figures_join_the_points_of_a_policy(planned: Budget, tmp_path: Path) -> None:
    """Policies have points at costs of their own; a line of one has no gap at those of another."""
    dear = {**planned.cost, "spark_fair": 1.5 * planned.cost["fifo"]}
    section = budget_section(replace(planned, cost=dear))
    assert None in section.charts[0].to_json()["series"]["y"]["fifo"]
    svg, _ = write_figures(tmp_path, [section], "c")
    lines = [path for path in re.findall(r'<path d="([^"]*)"', svg.read_text()) if "L" in path]
    drawn = [path for path in lines if path.count("L") + 1 == len(planned.executors)]
    assert len(drawn) == len(planned.cost)


def test_a_replay_that_fails_has_no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decima.cli.whatif.can_be_trusted", lambda _: False)
    few = ["whatif", REAL, "--draws", 1, "--sequences", 1, "--policies", "fifo"]
    result = succeeded(decima(*few, "--price", 2))
    assert "No cost estimate" in result.output
    assert "executor-hours" not in result.output


def test_the_command_prints_a_budget(tmp_path: Path) -> None:
    few = ["whatif", REAL, "--draws", 1, "--sequences", 1, "--policies", "fifo", "--price", 2.5]
    output, path = tmp_path / "found.json", tmp_path / "page.html"
    result = succeeded(decima(*few, "--deadline", 5, "--json", output, "--report", path))
    assert "Fewest executors that keep a p95 of 5 s" in result.output
    content = json.loads(output.read_text())["budget"]
    assert (content["price"], content["deadline_s"]) == (2.5, 5)
    assert min(content["baseline"]["cost"]) > 0
    assert "On a budget" in path.read_text()
    result = succeeded(decima(*few, "--allocation", "log"))
    printed = " ".join(result.output.split())
    assert "cheapest settings of dynamic allocation, that keep the p95 of fifo, " in printed
