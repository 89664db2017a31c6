"""The fewest executors that keep a p95, and their cost, where both are known by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from decima.cli.main import main
from decima.report.figures import write_figures
from decima.report.page import page
from decima.report.whatif import budget_section
from decima.whatif import WhatIf, what_if
from decima.whatif.budget import Budget, Terms, budget, budget_table, numbers_tried, span_s
from decima.whatif.replay import ReplayWorkload
from spark_sim import Slots
from tests.commands import cells_of, refused
from tests.recordings import FAST, never_meeting, recording
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
    assert planned.base_cost == pytest.approx(4 * 121.0)


def test_the_p95_needs_all_executors_and_a_deadline_fewer(study: WhatIf, planned: Budget) -> None:
    assert planned.fewest("fifo") == planned.executors.index(4)
    assert planned.words() is None, "nothing is cheaper than the baseline"
    assert planned.files() == {}
    in_time = replace(planned, terms=Terms(HOUR_S, deadline_s=2.5))
    assert in_time.fewest("fifo") == in_time.executors.index(2)
    assert in_time.words() == (
        "On a budget: fifo on 2 executors keeps a p95 of 2.5 s, and changes the cost by -50 %."
    )
    assert in_time.files() == {
        "spark-defaults.conf": "spark.dynamicAllocation.enabled false\nspark.executor.instances 2"
    }
    never = replace(planned, terms=Terms(HOUR_S, deadline_s=0.5))
    assert never.fewest("fifo") is None
    assert cells_of(budget_table(never))[1:] == [
        ["fifo, baseline", "4", "4", "1.00 s", "484.00", ""],
        ["fifo", "more than 8", "", "", "", ""],
        ["spark_fair", "more than 8", "", "", "", ""],
    ]


def test_a_number_that_keeps_the_p95_by_luck_does_not_count(planned: Budget) -> None:
    """Two executors are quick in the draws, and three are not: four are the fewest."""
    lucky = planned.p95_s["fifo"].copy()
    lucky[1] = 0.9
    found = replace(planned, p95_s={**planned.p95_s, "fifo": lucky})
    assert found.fewest("fifo") == found.executors.index(4)


def test_what_is_kept_or_saved_is_so_for_certain(planned: Budget) -> None:
    """Lower on average, with an interval that holds the other side, is neither."""
    spread = np.array([0.7, 0.9, 1.3])  # 0.97 on average
    p95_s = planned.p95_s["fifo"].copy()
    four = planned.executors.index(4)
    p95_s[four] = spread
    found = replace(planned, p95_s={"fifo": p95_s}, cost={"fifo": planned.cost["fifo"]})
    assert found.fewest("fifo") == four + 1
    in_time = replace(found, terms=Terms(HOUR_S, deadline_s=1.0))
    assert in_time.fewest("fifo") == four + 1
    late = replace(planned, terms=Terms(HOUR_S, deadline_s=2.5))
    unsure = planned.base_cost[0] * spread
    cost = {policy: np.tile(unsure, (7, 1)) for policy in planned.cost}
    assert late.cheapest() is not None
    assert replace(late, cost=cost).cheapest() is None


def test_another_policy_comes_with_its_settings(planned: Budget) -> None:
    quick = {**planned.p95_s, "spark_fair": np.full((7, 3), 0.5)}
    found = replace(planned, p95_s=quick)
    assert found.cheapest() == ("spark_fair", 0)
    assert found.files()["spark-defaults.conf"].splitlines() == [
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
    found = budget(what_if(going, settings), Terms(HOUR_S))
    assert found.base_cost == pytest.approx(np.full(3, 4 * 60.0 + 2 * 62.0))
    assert found.caveat() is not None


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
    found = budget(what_if(recording(*jobs), replace(FAST, policies=("fifo",))), Terms(HOUR_S))
    assert found.slots_each == 2
    assert found.executors == (1, 2, 3, 4)
    row = found.executors.index(2)
    assert found.p95_s["fifo"][row] == pytest.approx(np.full(3, np.percentile(range(1, 21), 95)))
    assert found.cost["fifo"][row] == pytest.approx(np.full(3, 2 * (19 * 60.0 + 20.0)))
    assert found.base_cost == pytest.approx(np.full(3, 2 * (19 * 60.0 + 20.0)))
    cells = cells_of(budget_table(found))
    assert cells[1][:3] == ["fifo, baseline", "2", "4"]
    assert cells[2][2] == str(2 * int(cells[2][1]))


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
    few = ["whatif", str(REAL), "--draws", "1", "--sequences", "1", "--policies", "fifo"]
    result = CliRunner().invoke(main, [*few, "--price", "2"])
    assert result.exit_code == 0, result.output
    assert "No cost estimate" in result.output
    assert "fewest executors" not in result.output


def test_the_command_prints_a_budget_and_refuses_what_is_none(tmp_path: Path) -> None:
    few = ["whatif", str(REAL), "--draws", "1", "--sequences", "1", "--policies", "fifo"]
    output = tmp_path / "found.json"
    result = CliRunner().invoke(main, [*few, "--price", "2.5", "--json", str(output)])
    assert result.exit_code == 0, result.output
    assert "Fewest executors that keep the p95 of fifo, " in result.output
    assert json.loads(output.read_text())["budget"]["price"] == 2.5
    path = tmp_path / "page.html"
    asked = ["--price", "2.5", "--deadline", "5", "--json", str(output), "--report", str(path)]
    result = CliRunner().invoke(main, [*few, *asked])
    assert result.exit_code == 0, result.output
    assert "Fewest executors that keep a p95 of 5 s" in result.output
    content = json.loads(output.read_text())
    assert content["budget"]["deadline_s"] == 5
    assert min(content["budget"]["baseline"]["cost"]) > 0
    assert "On a budget" in path.read_text()
    for wrong, words in (
        (["--price", "cheap"], "--price"),
        (["--price", "nan"], "--price"),
        (["--price", "0"], "--price"),
        (["--price", "1", "--deadline", "0"], "--deadline"),
        (["--deadline", "3"], "--deadline needs --price"),
        (["--price", "1", "--allocation", "log"], "--price knows no --allocation"),
    ):
        refused(CliRunner().invoke(main, [*few, *wrong]), words)
    asked = ["whatif", str(REAL), "--applications", "--price", "1"]
    refused(CliRunner().invoke(main, asked), "--applications knows no --price")
