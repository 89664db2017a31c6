"""The `harmony` command: a small training, its figures, and mistakes in one line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from matplotlib import image as images

from decima.rl.errors import StudyError
from harmony import cli
from harmony.cli import main
from harmony.clusters import Clusters
from harmony.comparison import picture_of
from harmony.config import CONFIGS, PAPER
from harmony.figures import FIGURES
from harmony.jobs import job_sequence
from harmony.measured import measured
from harmony.models import load_model, new_network, new_reward_model
from harmony.network import Size
from harmony.plots import DRAWN
from harmony.reward_config import RewardConfig
from harmony.study import ABLATIONS, SIZES, Models, Training, gather, trainings
from harmony.training_config import TrainConfig
from tests.harmony_clusters import save_model

SMALL = Size(width=16, layers=1, heads=2)
QUICK = (
    "size.width=16",
    "size.heads=2",
    "cluster.jobs=4",
    "replay=32",
    "imitation=0",
    "validation_sequences=1",
    "validate_every=1",
)


def harmony(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def trained(out: Path, *arguments: str, iterations: int = 2) -> Result:
    settings = (*QUICK, f"iterations={iterations}")
    changes = [part for setting in settings for part in ("--set", setting)]
    return harmony("train", "--out", str(out), *changes, *arguments)


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of interference from few states, and quick intervals."""
    monkeypatch.setattr("harmony.figures.SAMPLES", 100)
    monkeypatch.setattr("decima.rl.statistics.RESAMPLES", 50)


@pytest.mark.usefixtures("few_samples")
def test_a_training_leaves_a_model_that_can_be_compared_and_shown(tmp_path: Path) -> None:
    """train, evaluate, show."""
    result = trained(tmp_path / "run", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "all iterations done after 2 iterations" in result.output
    assert re.search(
        r"best validation [0-9.]+, mean logarithm of the completion times in intervals "
        r"\(Tiresias [0-9.]+, LB [0-9.]+ on the same data\); model",
        result.stdout,
    )
    model = tmp_path / "run" / "model.safetensors"
    found = load_model(model)
    assert (found.config.seed, found.config.cluster) == (3, replace(PAPER, jobs=4))

    trace = tmp_path / "times.json"
    trace.write_text('{"arrivals": [1, 2, 4, 8]}')
    for how in (["poisson"], ["trace", "--trace", str(trace)]):
        result = harmony("evaluate", "--arrivals", *how, "--sequences", "2", str(model))
        assert result.exit_code == 0, result.output
    rows = [line.split()[0] for line in result.output.splitlines()]
    assert rows[0] == "scheduler"
    assert {"lb", "tiresias", "lif_quad", "lookahead", str(model)} < set(rows)

    picture = tmp_path / "state.png"
    shown = harmony("show", "--model", str(model), "-o", str(picture))
    assert shown.exit_code == 0, shown.output
    assert len(np.unique(images.imread(picture))) > 5


def test_a_picture_tells_jobs_of_one_model_apart() -> None:
    """A colour and a number for each job, and a legend with its model."""
    model = measured().models[0]
    jobs = job_sequence(PAPER, [*[(0.0, model, 2, 0, 100.0)] * 3, (40.0, model, 1, 0, 1.0)])
    clusters = Clusters(PAPER, jobs)
    while clusters.state.current[0] < 3:
        rows = clusters.under_way()
        clusters.step(rows, clusters.masks(rows).argmax(axis=1).astype(np.int32))
    figure = picture_of(clusters)
    (axes,), (legend,) = figure.axes, figure.legends
    groups = axes.containers
    colours = [bars[0].get_facecolor() for bars in groups]
    assert len(set(colours)) == len(colours) == 3
    assert {text.get_text() for text in axes.texts} == {"0", "1", "2"}
    assert [text.get_text() for text in legend.get_texts()] == [f"{n}  {model}" for n in range(3)]


def test_equal_times_of_arrival_are_doubted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, once; what is measured stands."""
    rows = [["scheduler", "completion"], ["lb", "1.00"]]
    monkeypatch.setattr("harmony.comparison.compare", lambda *_: iter(rows))
    trace = tmp_path / "times.json"
    trace.write_text('{"arrivals": [5, 5, 5]}')
    result = harmony("evaluate", "--arrivals", "trace", "--trace", str(trace))
    assert result.exit_code == 0
    assert result.stdout.split() == ["scheduler", "completion", "lb", "1.00"]
    assert result.stderr.startswith(f"warning: {trace}: its 3 times are all 5, so jobs arrive 3 at")
    assert result.stderr.count("\n") == 1


def test_a_run_goes_on(tmp_path: Path) -> None:
    """Where it stands, not from the beginning."""
    trained(tmp_path, "--minutes", "1e-9", iterations=3)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 1

    result = harmony("train", "--out", str(tmp_path), "--resume")
    assert "after 3 iterations" in result.output
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3


def test_the_papers_recipe_and_a_reward_model_can_be_trained(tmp_path: Path) -> None:
    """By name; each has settings of its own."""
    result = trained(tmp_path / "recipe", "--what", "recipe", iterations=1)
    assert result.exit_code == 0, result.output
    assert load_model(tmp_path / "recipe" / "model.safetensors").config.entropy == 0.5
    settings = ("samples=60", "iterations=1", "size.width=16", "size.heads=2")
    changes = [part for setting in settings for part in ("--set", setting)]
    result = harmony("train", "--what", "reward", "--out", str(tmp_path / "reward"), *changes)
    assert result.exit_code == 0, result.output
    assert "best validation" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "--out", "{}/x", "--set", "speed=1"), "unknown setting speed"),
        (("train", "--out", "{}/x", "--set", "cluster.colour=1"), "unknown setting cluster.colour"),
        (("train", "--out", "{}/x", "--set", "colour.x=1"), "unknown setting colour"),
        (("train", "--out", "{}/x", "--set", 'world="model"'), "a reward model is needed"),
        (("train", "--out", "{}/x", "--resume"), "not a run folder"),
        (("study", "--out", "{}/x", "--only", "speed"), "unknown training 'speed'"),
        (("study", "--out", "{}/x", "--only", "policy-30-1"), "train it first"),
        (("gather", "{}", "--out", "{}/x"), "holds no run of the study"),
        (("show", "-o", "{}/x.png", "--interval", "999"), "interval 999: the episode is over"),
        (("evaluate", "{}/model.safetensors"), "of kind 'reward model', where 'policy' is"),
        (("evaluate", "--trace", "{}/model.safetensors"), "arrivals_file is for"),
    ],
)
@pytest.mark.usefixtures("few_samples")
def test_a_mistake_is_told_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    """On stderr, with exit code 2, and leaves nothing behind."""
    weights = new_reward_model(SMALL).state_dict()
    save_model(tmp_path / "model.safetensors", RewardConfig(size=SMALL), weights, {})

    result = harmony(*[argument.replace("{}", str(tmp_path)) for argument in arguments])

    assert result.exit_code == 2
    assert words in result.stderr
    # `study` names each training before it begins
    told = [line for line in result.stderr.splitlines() if line != "policy-30-1"]
    assert len(told) == 1
    assert not (tmp_path / "x").exists()


# --- the study and its figures -------------------------------------------------------------------


def test_the_study_has_a_training_for_each_point_of_the_figures() -> None:
    """Policies and reward models of two clusters, ablations, sizes; each after what it needs."""
    names = [one.name for one in trainings()]
    assert len(names) == len(set(names)) == 3 * (4 + len(ABLATIONS) + 1 + len(SIZES))
    for number, one in enumerate(trainings()):
        before = trainings()[:number]
        assert all(need is None or need in before for need in (one.initial, one.reward))
        assert one.config().cluster == CONFIGS[one.servers]
        assert one.config().seed == one.seed
    assert trainings()[0].config() == TrainConfig()


def write_models(folder: Path, wanted: list[Training]) -> None:
    """Models that have learned nothing, in place of those of the study."""
    folder.mkdir(exist_ok=True)
    for one in wanted:
        path = folder / f"{one.name}.safetensors"
        if one.kind == "reward":
            config = RewardConfig(cluster=CONFIGS[one.servers], size=SMALL, samples=400)
            save_model(path, config, new_reward_model(SMALL, one.seed).state_dict(), {})
        else:
            network = new_network(SMALL, one.seed)
            save_model(path, TrainConfig(size=SMALL), network.state_dict(), {})


@pytest.mark.usefixtures("few_samples")
def test_every_figure_is_measured_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With some models missing, as after an interrupted study; on small clusters."""
    small = {"6": replace(PAPER, jobs=4), "30": replace(PAPER, servers=7, jobs=4)}
    for name in ("harmony.figures", "tests.test_harmony_cli"):
        monkeypatch.setattr(f"{name}.CONFIGS", small)
    models = tmp_path / "models"
    kinds = ("policy", "reward", "recipe", "one_head", "paper_size", "heads_2")
    write_models(models, [Training(kind, "6", seed) for kind in kinds for seed in (0, 1)])
    out = tmp_path / "figures"

    result = harmony("reproduce", "--out", str(out), "--models", str(models), "--sequences", "3")

    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == sorted(
        f"{name}.{ending}" for name in FIGURES for ending in ("json", "png", "svg")
    )
    ten = json.loads((out / "figure10.json").read_text())
    assert set(ten["patterns"]) == {"uniform", "poisson", "trace"}
    entry = ten["patterns"]["trace"]["harmony"]
    assert entry["trainings"] == 2
    assert set(entry["percent_against"]) > {"lb", "tetris", "tiresias", "lif_linear", "lif_quad"}
    assert "harmony on the reward model" not in ten["patterns"]["trace"]
    thirteen = json.loads((out / "figure13.json").read_text())["servers"]
    assert set(thirteen["6"]) == {"reward model", "lif_linear", "lif_quad"}
    assert "30" not in thirteen
    axes = DRAWN["figure13"](json.loads((out / "figure13.json").read_text())).axes
    assert all(one.get_xticklabels() for one in axes)
    assert "10" in json.loads((out / "figure12.json").read_text())["minutes"]
    two = json.loads((out / "table2.json").read_text())["rows"]
    assert list(two) == ["recipe", "one_head"]
    assert "recipe" in two["one_head"]["percent_against"]


def test_models_are_gathered_from_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of trainings as the study has them."""
    one = Training("policy", "6", 0)
    runs = tmp_path / "runs"
    trained(runs / one.name)
    with pytest.raises(StudyError, match="not trained with the settings of the study"):
        gather(runs, tmp_path / "models")

    config = load_model(runs / one.name / "model.safetensors").config
    monkeypatch.setattr(Training, "config", lambda _self: config)
    assert gather(runs, tmp_path / "models") == [one.name]
    assert len(Models(tmp_path / "models").policies("policy", "6")) == 1


def test_the_command_knows_every_figure() -> None:
    """It names them itself, as to load them takes a second."""
    assert set(FIGURES) == set(DRAWN) == set(cli.FIGURES)
