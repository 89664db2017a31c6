"""The `deeprm` command: a small training, its figures, and mistakes in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from decima.rl.study.streams import Purpose
from deeprm.config import PAPER
from deeprm.evaluation import evaluate
from deeprm.figures import FIGURES
from deeprm.jobs import draw_jobs
from deeprm.objectives import Objective
from deeprm.schedulers import SJF, load_model, new_network, save_model
from deeprm.session import new_run, references
from deeprm.study import STUDY, Models, Training
from deeprm.training_config import TrainConfig
from tests.commands import succeeded
from tests.studies import DEEPRM


def test_a_training_is_compared_with_the_heuristics(tmp_path: Path) -> None:
    result = succeeded(DEEPRM.train(tmp_path / "run", "--load", "0.3", "--objective", "completion"))
    assert re.search(
        r"best validation [0-9.]+, average completion \(Tetris\* [0-9.]+, hold [0-9.]+, SJF "
        r"[0-9.]+ on the same",
        result.stdout,
    )
    config = load_model(tmp_path / "run" / "model.safetensors").config
    assert (config.objective, config.cluster) == ("completion", PAPER.at_load(0.3))


def test_a_validation_is_compared_on_its_own_job_sets(tmp_path: Path) -> None:
    """Tetris*, `hold` and SJF as `evaluate` has them; where more is better both are negated."""
    for objective in ("slowdown", "utilisation"):
        config = TrainConfig(cluster=PAPER, objective=objective, validation_sets=3, seed=4)
        with new_run(tmp_path / objective, config) as folder:
            tetris, hold, sjf = references(folder)
        jobs = draw_jobs(PAPER, 3, 4, Purpose.VALIDATION)
        mean = evaluate(SJF, PAPER, jobs, 0).measure(Objective(objective)).mean()
        assert (tetris.name, hold.name, sjf.name) == ("Tetris*", "hold", "SJF")
        assert sjf.score == pytest.approx(-mean if objective == "utilisation" else mean)


# --- the study and its figures -------------------------------------------------------------------


def write_models(folder: Path, wanted: list[Training]) -> None:
    """Models that have learned nothing, in place of those of the study."""
    folder.mkdir(exist_ok=True)
    for training in wanted:
        config = training.config()
        network = new_network(config)
        save_model(folder / f"{training.name}.safetensors", config, network.state_dict(), {})


def test_every_figure_is_measured_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With some models missing, as after an interrupted study."""
    monkeypatch.setattr("deeprm.figures.LOADS", (70, 110))
    monkeypatch.setattr("deeprm.figures.SIZES", {1: 10, 2: 12})
    monkeypatch.setattr("deeprm.figures.TUNING_SETS", 2)
    monkeypatch.setattr("deeprm.figures.PLAYS", 2)
    monkeypatch.setattr("decima.rl.statistics.RESAMPLES", 50)
    models = tmp_path / "models"
    wanted = [Training("slowdown", 110, seed) for seed in (0, 1)]
    write_models(models, [*wanted, Training("completion", 130, 0), Training("compact", 90, 1)])
    curve = [{"iteration": 0, "mean_reward": -9.0, "max_reward": -5.0, "slowdown": 3.0}]
    (models / "curves.json").write_text(json.dumps({"paper-70-0": curve}))
    out = tmp_path / "figures"

    succeeded(DEEPRM.run("reproduce", "--out", str(out), "--models", str(models), "--sets", "4"))

    assert sorted(path.name for path in out.iterdir()) == sorted(
        f"{name}.{ending}" for name in FIGURES for ending in ("json", "png", "svg")
    )
    four = json.loads((out / "figure4.json").read_text())
    assert four["job_sets"] == 4
    assert set(four["loads"]["70"]) == {"tetris", "hold", "sjf", "packer", "random"}
    assert four["loads"]["110"]["deeprm"]["trainings"] == 2
    assert four["loads"]["110"]["deeprm"]["percent_against"]["tetris"]["mean"] > 0
    five = json.loads((out / "figure5.json").read_text())
    assert "deeprm for completion" in five["measures"]["makespan"]
    assert list(json.loads((out / "figure6.json").read_text())["curves"]) == ["paper-70-0"]
    seven = json.loads((out / "figure7.json").read_text())
    assert 0.0 < seven["held_steps"]["mean"] < 1.0
    assert set(seven["slowdown"]["large"]) == {"deeprm", "hold", "tetris"}
    larger = json.loads((out / "sizes.json").read_text())["sizes"]["2"]
    assert larger["deeprm"]["trainings"] == 1
    assert set(seven["withheld_jobs_by_duration"]) <= {
        str(n) for n in [*range(1, 4), *range(10, 16)]
    }


def test_curves_are_gathered_from_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training("paper", 70, 0)
    runs = tmp_path / "runs"
    DEEPRM.train(runs / training.name)
    config = load_model(runs / training.name / "model.safetensors").config
    monkeypatch.setattr(Training, "config", lambda _self: config)
    STUDY.gather(runs, tmp_path / "models")
    models = Models(tmp_path / "models")
    assert [model.config for model in models.of("paper", 70)] == [config]
    (rows,) = models.curves().values()
    assert [row["iteration"] for row in rows] == [0, 1]
    assert set(rows[0]) == {"iteration", "mean_reward", "max_reward", "slowdown"}
