"""Several training runs on one page: best scores, curves on one axis, settings that differ."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from decima.cli.main import main
from decima.report.section import Lines
from decima.report.training import RunRow, different_settings, moving_mean, runs_section
from decima.training.config import TrainConfig


def run_folder(path: Path, scores: dict[int, float], seed: int = 0) -> Path:
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
    first = run_folder(tmp_path / "first", {1: -2.0, 3: -4.0})
    second = run_folder(tmp_path / "second", {2: -5.0, 5: -3.0}, seed=1)
    section = runs_section([first, second])
    assert section.content["rows"] == [
        RunRow("first", 10, "10 min", -4.0, 4, None),
        RunRow("second", 10, "10 min", -5.0, 3, None),
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
    section = runs_section([run_folder(tmp_path / "a", {}), run_folder(tmp_path / "b", {4: -1.0})])
    assert section.content["rows"][0].best is None
    for chart in section.charts:
        assert isinstance(chart, Lines)
        assert set(chart.series.y) == {"b"}


def test_equal_folder_names_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    folders = [run_folder(tmp_path / name / "run", {1: -1.0}) for name in ("x", "y")]
    assert runs_section(folders).content["names"] == [str(folder) for folder in folders]


def test_long_lists_count_as_their_length() -> None:
    """A setting that one run lacks is empty there."""
    configs: dict[str, dict[str, object]] = {
        "a": {"workload": {"load": [0.7, 0.9]}, "settings": [{"trace": "tpch"}] * 9},
        "b": {"workload": {"load": [0.7]}, "settings": [{"trace": "tpch"}] * 8, "new": 1},
    }
    assert different_settings(configs) == [
        ("new", ["", "1"]),
        ("settings", ["9 entries", "8 entries"]),
        ("workload.load", ["[0.7, 0.9]", "[0.7]"]),
    ]


def test_a_moving_mean_leaves_out_what_is_missing() -> None:
    values = np.array([1.0, 2.0, np.nan, 6.0])
    np.testing.assert_array_equal(moving_mean(values, 3), [1.5, 1.5, 4.0, 6.0])
    assert np.isnan(moving_mean(np.array([np.nan, np.nan]), 1)).all()


def test_the_command_compares_the_runs_that_it_is_given(tmp_path: Path) -> None:
    """One run alone has no comparison."""
    folders = [str(run_folder(tmp_path / name, {1: -1.0})) for name in ("a", "b")]
    out = tmp_path / "page.html"
    for given, compared in ((folders, True), (folders[:1], False)):
        result = CliRunner().invoke(main, ["report", *given, "-o", str(out)])
        assert result.exit_code == 0, result.output
        assert ("Training runs compared" in out.read_text()) is compared
