"""The `harmony` command: a small training, its figures, and mistakes in one line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harmony.config import CONFIGS, PAPER
from harmony.figures import FIGURES
from harmony.measured import measured
from harmony.models import load_model, new_network, new_reward_model
from harmony.network import Size
from harmony.study import Training
from harmony.training_config import RewardConfig, TrainConfig
from tests.commands import succeeded
from tests.harmony_clusters import save_model
from tests.studies import HARMONY, few_samples

SMALL = Size(width=16, layers=1, heads=2)


def test_a_training_is_compared_with_the_heuristics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`evaluate` has them all, with any arrivals."""
    few_samples(monkeypatch)
    result = succeeded(HARMONY.train(tmp_path / "run", "--seed", "3"))
    assert re.search(
        r"best validation [0-9.]+, geometric mean of completion times in intervals "
        r"\(Tiresias [0-9.]+, LB [0-9.]+ on the same data\); model",
        result.stdout,
    )
    model = tmp_path / "run" / "model.safetensors"
    loaded = load_model(model)
    assert (loaded.config.seed, loaded.config.cluster) == (3, replace(PAPER, jobs=4))

    trace = tmp_path / "times.json"
    trace.write_text('{"arrivals": [1, 2, 4, 8]}')
    how = ("--arrivals", "trace", "--trace", str(trace))
    result = succeeded(HARMONY.run("evaluate", *how, "--sequences", "2", str(model)))
    rows = {line.split()[0] for line in result.output.splitlines()}
    assert {"lb", "tiresias", "lif_quad", "lookahead", str(model)} < rows


def test_the_papers_recipe_and_a_reward_model_can_be_trained(tmp_path: Path) -> None:
    result = succeeded(HARMONY.train(tmp_path / "recipe", "--what", "recipe", iterations=1))
    assert load_model(tmp_path / "recipe" / "model.safetensors").config.entropy == 0.5
    settings = ("samples=60", "iterations=1", "size.width=16", "size.heads=2")
    changes = [part for setting in settings for part in ("--set", setting)]
    result = HARMONY.run("train", "--what", "reward", "--out", str(tmp_path / "reward"), *changes)
    assert result.exit_code == 0, result.output
    assert "best validation" in result.output


# --- the study and its figures -------------------------------------------------------------------


def write_models(folder: Path, wanted: list[Training]) -> None:
    """Models that have learned nothing, in place of those of the study."""
    folder.mkdir(exist_ok=True)
    for training in wanted:
        path = folder / f"{training.name}.safetensors"
        if training.kind == "reward":
            config = RewardConfig(cluster=CONFIGS[training.servers], size=SMALL, samples=400)
            save_model(path, config, new_reward_model(SMALL, training.seed).state_dict(), {})
        else:
            network = new_network(SMALL, training.seed)
            save_model(path, TrainConfig(size=SMALL), network.state_dict(), {})


def test_every_figure_is_measured_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With some models missing, as after an interrupted study; on small clusters."""
    few_samples(monkeypatch)
    small = {"6": replace(PAPER, jobs=4), "30": replace(PAPER, servers=7, jobs=4)}
    for name in ("harmony.figures", "tests.test_harmony_cli"):
        monkeypatch.setattr(f"{name}.CONFIGS", small)
    models = tmp_path / "models"
    kinds = ("policy", "reward", "recipe", "one_head", "paper_size", "heads_2", "analytic")
    write_models(models, [Training(kind, "6", seed) for kind in kinds for seed in (0, 1)])
    out = tmp_path / "figures"

    done = HARMONY.run("reproduce", "--out", str(out), "--models", str(models), "--sequences", "3")
    assert done.exit_code == 0, done.output

    assert sorted(path.name for path in out.iterdir()) == sorted(
        f"{name}.{ending}" for name in FIGURES for ending in ("json", "png", "svg")
    )
    ten = json.loads((out / "figure10.json").read_text())
    assert set(ten["patterns"]) == {"uniform", "poisson", "trace"}
    entry = ten["patterns"]["trace"]["harmony"]
    assert entry["trainings"] == 2
    assert set(entry["percent_against"]) > {"lb", "tetris", "tiresias", "lif_linear", "lif_quad"}
    assert "harmony on the reward model" not in ten["patterns"]["trace"]
    assert ten["analytic"]["trace"]["harmony"]["trainings"] == 2
    eleven = json.loads((out / "figure11.json").read_text())["types"]
    assert list(eleven) == list(measured().models)
    assert eleven["MoE"]["harmony"]["trainings"] == 2
    assert set(eleven["MoE"]["harmony"]["percent_against"]) == set(eleven["MoE"]) - {"harmony"}
    thirteen = json.loads((out / "figure13.json").read_text())["servers"]
    assert set(thirteen["6"]) == {"reward model", "lif_linear", "lif_quad"}
    assert "30" not in thirteen
    axes = FIGURES["figure13"][1](json.loads((out / "figure13.json").read_text())).axes
    assert all(ax.get_xticklabels() for ax in axes)
    assert "10" in json.loads((out / "figure12.json").read_text())["minutes"]
    two = json.loads((out / "table2.json").read_text())["rows"]
    assert list(two) == ["recipe", "one_head"]
    assert "recipe" in two["one_head"]["percent_against"]
