"""Trainings and decisions in a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from decima import Heuristic
from decima.agent.model import save_model
from decima.evaluation.runner import Workload
from decima.report.decisions import decisions_section
from decima.report.explain.decision import moments
from decima.report.explain.reasons import LEAST_WEIGHT
from decima.report.page import page
from decima.report.section import Lines, Series
from decima.report.training import runs_section, training_section
from decima.rl.run_folder import RunFolder
from decima.training.config import ImitateConfig, ReinforceConfig, TrainConfig
from spark_sim import PASS
from tests.commands import decima, refused, small_config, succeeded
from tests.networks import random_network
from tests.pages import run_folder


def test_a_training_beside_its_references(tmp_path: Path) -> None:
    """19 % below strict fair and 10 % below es_rule: es_rule itself is 10 % below strict fair."""
    section = training_section(run_folder(tmp_path / "run"))
    assert section.content["best_after"] == 3  # iterations count from 1, as in the terminal
    assert section.content["planned"] == TrainConfig().iterations
    assert section.content["duration"] == "25 s"
    assert section.content["references"] == [("es_rule", pytest.approx(-10.0))]
    assert section.content["settings"] == [("<b>", -15.0), ("one", -19.0)]
    charts = {chart.title: chart.series for chart in section.charts if isinstance(chart, Lines)}
    score = charts["Average JCT against strict_fair on held-out sequences"]
    assert score.x == [1, 3]
    assert score.y["model"] == [-10.0, -19.0]
    assert score.y["es_rule"] == [-25.0, -10.0]
    assert charts["Throughput"].y == {"Throughput": [10.0, 30.0, 40.0]}
    assert charts["Entropy"].y == {"Entropy": [0.5, 0.4, 0.3]}
    (lengths,) = charts["Length of an episode"].y.values()
    assert lengths[0] == TrainConfig().episodes.start_jobs


def test_each_step_of_a_training_has_its_loss_and_the_others_a_line_between(tmp_path: Path) -> None:
    """Two iterations of imitation, then 23 of policy gradient, whose loss is another one.

    The moving mean leaves out what is missing.
    """
    config = TrainConfig(
        imitate=ImitateConfig(iterations=2), reinforce=ReinforceConfig(iterations=23)
    )
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config.to_json()))
    figures = [{"loss": 3.0, "entropy": 0.5}] * 2 + [{"loss": 0.1, "entropy": 0.1}] * 23
    figures[10] = {"loss": 0.1}
    rows = [json.dumps({"iteration": number} | row) for number, row in enumerate(figures)]
    (folder / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    charts = {
        chart.title: chart for chart in training_section(folder).charts if isinstance(chart, Lines)
    }
    assert charts["Loss, imitate"].series == Series([1.0, 2.0], {"Loss, imitate": [3.0, 3.0]})
    reinforce = charts["Loss, reinforce"].series
    assert reinforce.x == list(range(3, 26))
    assert all(set(values) == {0.1} for values in reinforce.y.values())
    assert charts["Loss, reinforce"].marks == []
    assert charts["Entropy"].marks == [(2.5, "reinforce begins")]
    assert charts["Entropy"].series.y["moving mean"] == [0.5] * 2 + [0.1] * 23


def test_a_training_is_reported_while_another_process_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called by its folder, even where it is named as the one that the user is in."""
    folder, out = run_folder(tmp_path / "trained"), tmp_path / "page.html"
    monkeypatch.chdir(folder)
    with RunFolder.open(folder):
        succeeded(decima("report", ".", "-o", out))
    text = " ".join(out.read_text().split())
    assert "<title>Training run \u201ctrained\u201d</title>" in text
    assert "<h2>Training run \u201ctrained\u201d</h2>" in text
    assert "after iteration 3" in text
    assert f"3 of {TrainConfig().iterations} iterations, 25 s of training" in text
    assert "<b>_percent" not in text


def test_a_training_before_its_first_iteration(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    (folder / "metrics.jsonl").unlink()
    section = training_section(folder)
    assert section.charts == []
    assert "no validation yet" in page([section], title="t", command="c")


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    refused(decima("report", tmp_path, "-o", out), "no run")
    folder = run_folder(tmp_path / "run")
    for figures, words in (
        ({"iteration": "x"}, "metrics.jsonl"),
        ({"validation/score": "low"}, "'validation/score' is 'low': no finite number"),
        ({"elapsed_s": None}, "'elapsed_s' is None: no finite number"),
        (
            {"validation/score": 1.0, "validation/above_fifo": -100},
            "'validation/above_fifo' is -100 %: it must be above -100 %",
        ),
    ):
        (folder / "metrics.jsonl").write_text(json.dumps({"iteration": 0} | figures) + "\n")
        refused(decima("report", folder, "-o", out), words)
    huge = {"iteration": 0, "plans": 10**300, "elapsed_s": 10**300, "validation/score": -200}
    (folder / "metrics.jsonl").write_text(json.dumps(huge) + "\n")
    succeeded(decima("report", folder, "-o", out))


# --- decisions -----------------------------------------------------------------------------------


def test_decisions_show_each_policys_choice_in_the_same_place(
    trace_file: Path, tmp_path: Path
) -> None:
    """Every plan of the run: the choice taken, and the heuristic's at the same moment."""
    network, path = random_network(), tmp_path / "model.safetensors"
    with torch.no_grad():
        network.stage_head.last.weight.mul_(50)  # so that reasons weigh
    save_model(path, network.config, network.state_dict(), {})
    name = str(path)
    config = small_config(trace_file, policies=("strict_fair", name))
    workload = Workload.of(config)
    section = decisions_section(workload, config, name, 1, explained=3)
    run = [
        decision
        for decision in moments(workload, config, name, 1)
        if decision.number == decision.planned_at
    ]
    assert [entry["number"] for entry in section.decisions] == [decision.number for decision in run]
    assert sum(1 for entry in section.decisions if entry["words"]) == 3
    weights = [weight for entry in section.decisions for _, weight in entry["reasons"]]
    assert weights
    assert all(abs(weight) >= LEAST_WEIGHT for weight in weights)
    for entry, moment in zip(section.decisions, run, strict=True):
        seen = moment.observation
        own = (None if entry["taken"] is None else entry["taken"]["job"], moment.action)
        other = (
            None if entry["others"]["strict_fair"] is None
            else entry["others"]["strict_fair"]["job"],
            Heuristic("strict_fair").decide(seen),
        )  # fmt: skip
        for job, action in (own, other):
            assert job == (None if action == PASS else int(seen.stages["job"][action.stage]))
        assert entry["stages"] == moment.num_open
        total = sum(decision["p"] for decision in entry["likely"]) + entry["end"]["p"]
        assert total == pytest.approx(1.0, abs=1e-3) or entry["stages"] > len(entry["likely"])


# --- several runs ---------------------------------------------------------------------------------


def validated_run(path: Path, scores: dict[int, float], seed: int = 0) -> Path:
    """A run of ten iterations of 60 s each, validated after those in `scores`."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(TrainConfig(seed=seed).to_json()))
    rows = [
        {"iteration": number, "elapsed_s": 60.0 * (number + 1)}
        | ({"validation/score": scores[number]} if number in scores else {})
        for number in range(10)
    ]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_runs_stand_beside_each_other(tmp_path: Path) -> None:
    """After iteration 3 the first run is half way between its scores after 2 and 4."""
    first = validated_run(tmp_path / "first", {1: -2.0, 3: -4.0})
    second = validated_run(tmp_path / "second", {2: -5.0, 5: -3.0}, seed=1)
    section = runs_section([first, second])
    assert [list(row.values()) for row in section.content["rows"]] == [
        ["first", 10, "10 min", -4.0, 4, None],
        ["second", 10, "10 min", -5.0, 3, None],
    ]
    assert section.content["settings"] == [("seed", ["0", "1"])]
    by_iteration, by_minutes = section.charts
    assert isinstance(by_iteration, Lines)
    assert isinstance(by_minutes, Lines)
    assert by_iteration.series.x == [2, 3, 4, 6]
    assert by_iteration.series.y == {
        "first": [-2.0, -3.0, -4.0, None],
        "second": [None, -5.0, pytest.approx(-4.3333), -3.0],
    }
    assert by_minutes.series.x == [2, 3, 4, 6]


def test_a_run_that_has_not_validated_has_a_row_and_no_curve(tmp_path: Path) -> None:
    first, second = validated_run(tmp_path / "a", {}), validated_run(tmp_path / "b", {4: -1.0})
    section = runs_section([first, second])
    assert section.content["rows"][0]["best"] is None
    for chart in section.charts:
        assert isinstance(chart, Lines)
        assert set(chart.series.y) == {"b"}
