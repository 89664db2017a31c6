"""What holds for DeepRM and for Harmony alike: one contract, run over both.

What each has of its own, and its stories solved on paper, is in `tests/test_deeprm_*.py` and
`tests/test_harmony_*.py`.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env
from matplotlib import image as images

from decima.rl.checkpoint import load_tensors, save_tensors
from decima.rl.errors import CheckpointError, StudyError
from decima.rl.run_folder import RunFolder
from decima.rl.study.env import register
from decima.rl.study.lockstep import play
from decima.rl.study.models import INITIAL, MODEL
from decima.rl.study.streams import Draws, Purpose
from deeprm.config import Config as DeepRmConfig
from deeprm.objectives import Objective
from deeprm.training_config import TrainConfig as DeepRmTraining
from harmony.config import Config as HarmonyConfig
from harmony.interference import draw_samples
from harmony.network import Size
from harmony.training_config import TrainConfig as HarmonyTraining
from tests.commands import one_line, raises_one_line, succeeded
from tests.studies import (
    DEEPRM,
    HARMONY,
    TRAINED,
    System,
    Trained,
    each_kind,
    each_system,
    episode,
    few_samples,
    metrics_without_times,
    run_in_parts,
)
from traces.files.settings import build

# --- the environment -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "settings"),
    [
        ("deeprm/DeepRM-v0", {}),
        ("deeprm/DeepRM-v0", {"observation": "compact", "load": 1.3}),
        ("deeprm/DeepRM-v0", {"config": "released", "objective": "completion"}),
        ("deeprm/DeepRM-v0", {"objective": "makespan", "load": 0.1, "render_mode": "rgb_array"}),
        ("harmony/Harmony-v0", {}),
        ("harmony/Harmony-v0", {"arrivals": "poisson"}),
        ("harmony/Harmony-v0", {"config": HARMONY.tiny}),
    ],
)
def test_gymnasium_finds_nothing_to_complain_of(env_id: str, settings: dict[str, Any]) -> None:
    """`check_env` without a single warning; importing the module is all that `make` needs."""
    package = env_id.partition("/")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(f"{package}.env:{env_id}", **settings).unwrapped)


@each_system
def test_one_seed_one_episode_and_the_next_reset_the_next(system: System) -> None:
    first, second = (episode(system.env(), 9)[0] for _ in range(2))
    assert first == second
    env = system.env()
    infos = [env.reset(seed=9)[1], env.reset()[1], env.reset(seed=9)[1]]
    assert [info[system.number] for info in infos] == [0, 1, 0]


@each_system
def test_an_environment_refuses_misuse(system: System) -> None:
    env, known = system.env(), ", ".join(system.module("config").CONFIGS)
    with pytest.raises(StudyError, match=known):
        system.env(config="papers")
    with pytest.raises(ResetNeeded):
        env.step(np.int64(0))
    env.reset(seed=1)
    beyond = system.tiny.actions
    with pytest.raises(InvalidAction, match=f"{beyond} is not in"):
        env.step(np.int64(beyond))
    with pytest.raises(StudyError, match="not speed"):
        env.reset(options={"speed": 1})
    module = system.module("env")
    register(module.ENV_ID, f"{module.__name__}:{type(env).__name__}")


# --- inputs and schedulers -----------------------------------------------------------------------


@each_system
def test_inputs_are_drawn_one_by_one_from_named_streams(system: System) -> None:
    """Input 7 is the same whether it is drawn alone or with others; purposes share nothing."""
    draw_jobs, config = system.module("jobs").draw_jobs, system.module("config").PAPER
    together = draw_jobs(config, 3, 11, Purpose.TEST, first=6)
    alone, other = (
        draw_jobs(config, 1, 11, purpose, first=7) for purpose in (Purpose.TEST, Purpose.TUNING)
    )
    count = int(alone.number[0])
    assert together.number[1] == count
    for column, own in zip(together[1:], alone[1:], strict=True):
        assert (column[1, :count] == own[0]).all()
    assert other[1].tolist() != alone[1].tolist()
    with pytest.raises(StudyError, match="at least 1 is needed"):
        draw_jobs(config, 0, 11, Purpose.TEST)


def baselines(system: System) -> dict[str, Any]:
    make, tiny = system.module("evaluation").baselines, system.tiny
    if system is HARMONY:
        return dict(make(tiny, draw_samples(tiny, 100, 3)))
    tuning = system.module("jobs").draw_jobs(tiny, 3, 0, Purpose.TUNING)
    return dict(make(tiny, tuning, Objective.SLOWDOWN))


@each_system
def test_a_scheduler_plays_the_same_alone_and_in_company(system: System) -> None:
    """Also what is random: the k-th choice of an episode is its own."""
    jobs = system.module("jobs").draw_jobs(system.tiny, 4, 2, Purpose.TEST)
    random = {"random": system.module("schedulers").RandomChoice()}
    for name, scheduler in (baselines(system) | random).items():
        states = []
        for rows in (np.arange(4), np.arange(4), np.arange(2)):
            episodes = system.episodes(system.tiny, jobs, rows.astype(np.int32), scheduler)
            play(scheduler, episodes, Draws(3, len(rows)))
            states.append(episodes.state)
        for together, again, fewer in zip(*states, strict=True):
            assert (together == again).all(), name
            assert (together[:2] == fewer).all(), name


# --- configurations ------------------------------------------------------------------------------


@each_system
def test_configurations_survive_json(system: System) -> None:
    module = system.module("config")
    for config in module.CONFIGS.values():
        written = json.loads(json.dumps(config.to_json()))
        assert build(module.Config, written, StudyError) == config


IMPOSSIBLE: list[tuple[type, dict[str, Any], str]] = [
    (DeepRmConfig, {"slots": 0}, "slots is 0"),
    (DeepRmConfig, {"colour": 1}, "unknown setting colour"),
    (DeepRmConfig, {"load": 9.0}, "a load of 9.0 needs"),
    (DeepRmConfig, {"large_duration": [10, 21]}, "jobs last up to 21 steps"),
    (DeepRmConfig, {"small_duration": [3, 1]}, "small_duration is 3 to 1"),
    (DeepRmConfig, {"max_steps": 50}, "max_steps is 50"),
    (DeepRmConfig, {"capacity_by_resource": [20, 5]}, "a resource has 5"),
    (DeepRmConfig, {"machines": 40}, "40 machines of 2 resources: at most 64"),
    (DeepRmConfig, {"arrival_trials": 2, "load": 1.9}, "2 can arrive"),
    (HarmonyConfig, {"servers": 0}, "servers is 0"),
    (HarmonyConfig, {"all_reduce_share": 1.5}, r"all_reduce_share is 1\.5"),
    (HarmonyConfig, {"arrivals": "trace", "arrivals_file": "a", "jobs_file": "b"}, "one may be"),
    (HarmonyConfig, {"arrivals_file": "x"}, "arrivals_file is for"),
    (HarmonyConfig, {"jobs_per_20_min": 1e300}, r"jobs_per_20_min is 1e\+300: at most 1e\+06"),
    (DeepRmTraining, {"episodes": 1}, "at least 2"),
    (DeepRmTraining, {"final_learning_rate": 0.1}, "must stay above 0 and not rise"),
    (DeepRmTraining, {"teacher": "packer"}, "teacher is 'packer'"),
    (DeepRmTraining, {"objective": "speed"}, "objective is 'speed'"),
    (DeepRmTraining, {"cluster": {"colour": 0}}, "unknown setting cluster.colour"),
    (HarmonyTraining, {"patterns": ["often"]}, "patterns.0 is 'often'"),
    (HarmonyTraining, {"size": {"heads": 3}}, "heads must divide"),
    (HarmonyTraining, {"size": {"models": 65}}, "size.models is 65: at most 64"),
    (HarmonyTraining, {"size": {"width": 100_000}}, "at most 16 layers of 1,024 units"),
]


@pytest.mark.parametrize(("kind", "change", "words"), IMPOSSIBLE)
def test_impossible_settings_are_refused(kind: type, change: dict[str, Any], words: str) -> None:
    with raises_one_line(StudyError, match=words):
        build(kind, change, StudyError)


# --- trainings and their files -------------------------------------------------------------------


@each_kind
def test_a_run_that_was_interrupted_ends_as_one_that_was_not(
    trained: Trained, tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run_in_parts(trained, whole, [None])
    run_in_parts(trained, parts, [1e-9, 1e-9, None])
    assert (whole / MODEL).read_bytes() == (parts / MODEL).read_bytes()
    assert trained.kind.load(whole / MODEL).config == trained.config
    assert metrics_without_times(whole) == metrics_without_times(parts)
    assert len(metrics_without_times(whole)) == trained.config.iterations
    assert list((whole / "tensorboard").iterdir())


@pytest.mark.parametrize("name", ["image", "policy"])
def test_a_training_may_begin_with_the_weights_of_another(name: str, tmp_path: Path) -> None:
    """Of a network of the same size; the run keeps a copy of it."""
    trained, path = TRAINED[name], tmp_path / "first.safetensors"
    trained.save(path)
    session, config = trained.system.module("session"), replace(trained.config, imitation=0)
    with session.new_run(tmp_path / "run", config, path) as folder:
        assert session.config_of(folder) == replace(config, initial=True)
        session.run_training(folder, time_limit_s=1e-9)
        after, _ = load_tensors(folder.checkpoint_file)
    assert (tmp_path / "run" / INITIAL).read_bytes() == path.read_bytes()
    begun = [parameter.flatten() for parameter in trained.kind.load(path).network.parameters()]
    moved = (after["parameters"] - torch.cat(begun)).abs().max()
    assert 0.0 < moved < 0.02

    other = {"policy": "compact"} if trained.system is DEEPRM else {"size": Size(width=32)}
    with pytest.raises(StudyError, match="cannot begin a training"):
        session.new_run(tmp_path / "other", replace(config, **other), path)
    assert not (tmp_path / "other").exists()


@each_kind
def test_a_model_comes_back_from_its_file(trained: Trained, tmp_path: Path) -> None:
    """To 16 bits a number, with the configuration of its training."""
    path = tmp_path / "model.safetensors"
    network = trained.save(path, {"iterations": 3})
    model = trained.kind.load(path)
    assert (model.config, model.card) == (trained.config, {"iterations": 3})
    loaded = model.network.state_dict()
    for name, weight in network.state_dict().items():
        torch.testing.assert_close(loaded[name], weight, rtol=1e-3, atol=1e-4)


@each_kind
def test_a_file_that_is_no_model_is_refused(trained: Trained, tmp_path: Path) -> None:
    path, kind = tmp_path / "model.safetensors", trained.kind
    marks = {"format": kind.format} | ({} if kind.name is None else {"kind": kind.name})
    for facts, error, words in (
        ({}, StudyError, f"no model of {kind.package}"),
        ({**marks, "kind": "other"}, StudyError, "of kind 'other', where"),
        (marks, CheckpointError, "its header's config is None"),
        ({**marks, "config": {}, "card": [3]}, CheckpointError, r"card is \[3\], not an object"),
    ):
        save_tensors(path, {"x": torch.zeros(1)}, facts)
        with pytest.raises(error, match=words):
            kind.load(path)
    weights = trained.make().state_dict()
    kind.save(path, trained.config, {**weights, "further": torch.zeros(1)}, {})
    with pytest.raises(StudyError, match="do not fit the network that its header names"):
        kind.load(path)
    broken = {
        n: tensor * np.nan if tensor.is_floating_point() else tensor
        for n, tensor in weights.items()
    }
    kind.save(path, trained.config, broken, {})
    with pytest.raises(StudyError, match="not all finite"):
        kind.load(path)


# --- commands ------------------------------------------------------------------------------------


@each_system
def test_a_training_leaves_a_model_that_can_be_compared_and_shown(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_samples(monkeypatch)
    result = succeeded(system.train(tmp_path / "run", "--seed", "3"))
    assert "all iterations done after 2 iterations" in result.output
    model = tmp_path / "run" / MODEL
    assert system.load_model(model).config.seed == 3

    result = succeeded(system.run("evaluate", f"--{system.inputs}", "2", str(model)))
    names = [line.split()[0] for line in result.output.splitlines()]
    assert names == ["scheduler", *baselines(system), str(model)]

    picture = tmp_path / "state.png"
    succeeded(system.run("show", "--model", str(model), "-o", str(picture)))
    assert len(np.unique(images.imread(picture))) > 5


@each_system
def test_a_run_goes_on(system: System, tmp_path: Path) -> None:
    system.train(tmp_path, "--minutes", "1e-9", iterations=3)
    assert len(metrics_without_times(tmp_path)) == 1
    result = system.run("train", "--out", str(tmp_path), "--resume")
    assert "after 3 iterations" in result.output
    assert len(metrics_without_times(tmp_path)) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "--out", "{}/x", "--set", "speed=1"), "unknown setting speed"),
        (("train", "--out", "{}/x", "--set", "cluster.colour=1"), "unknown setting cluster.colour"),
        (("train", "--out", "{}/x", "--set", "colour.x=1"), "unknown setting colour"),
        (("train", "--out", "{}/x", "--set", "speed"), "expected KEY=VALUE"),
        (("train", "--out", "{}/x", "--resume"), "not a run folder"),
        (("study", "--out", "{}/x", "--only", "speed"), "unknown training 'speed'"),
        (("gather", "{}", "--out", "{}/x"), "holds no run of the study"),
    ],
)
@each_system
def test_a_mistake_is_one_line(
    system: System, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert_refused(system, tmp_path, arguments, words)


def assert_refused(system: System, folder: Path, arguments: tuple[str, ...], words: str) -> None:
    """Nothing is left behind."""
    one_line(system.run(*[argument.replace("{}", str(folder)) for argument in arguments]), words)
    assert not list(folder.glob("x*"))


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        ("image", ("train", "--out", "{}/x", "--load", "9"), "a load of 9.0 needs"),
        ("image", ("show", "-o", "{}/x.png", "--step", "999"), "step 999: the episode is over"),
        ("image", ("evaluate", "{}/model"), "cluster of another shape"),
        ("image", ("import", "google", "{}/trace", "-o", "{}/x"), "cells, where 13 are needed"),
        (
            "reward model",
            ("train", "--out", "{}/x", "--set", 'world="model"'),
            "a reward model is needed",
        ),
        (
            "reward model",
            ("show", "-o", "{}/x.png", "--interval", "999"),
            "interval 999: the episode is over",
        ),
        ("reward model", ("evaluate", "{}/model"), "of kind 'reward model', where 'policy' is"),
        ("reward model", ("evaluate", "--trace", "{}/model"), "arrivals_file is for"),
        (
            "reward model",
            ("import", "philly", "{}/trace", "-o", "{}/x"),
            "job 0 is no job of cluster_job_log",
        ),
    ],
)
def test_a_mistake_of_one_system_is_one_line(
    kind: str, arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    """Beside a model that does not fit, and a file that is no trace."""
    TRAINED[kind].save(tmp_path / "model")
    (tmp_path / "trace").write_text('[{"user": "u"}]')
    assert_refused(TRAINED[kind].system, tmp_path, arguments, words)


# --- the study -----------------------------------------------------------------------------------


@each_system
def test_each_training_of_a_study_comes_after_what_it_needs(system: System) -> None:
    trainings = system.module("study").trainings()
    assert len({training.name for training in trainings}) == len(trainings)
    assert trainings[0].name == system.first
    assert trainings[0].config() == system.module("training_config").TrainConfig()
    for number, one in enumerate(trainings):
        assert {need for need in one.needs if need is not None} <= set(trainings[:number])
        assert one.config().seed == one.seed


@each_system
def test_a_study_trains_in_order(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ("study", "--out", str(tmp_path))
    refused = system.run(*out, "--only", system.later)
    assert refused.exit_code == 2
    assert "which is not there: train it first" in refused.stderr

    quick = replace(system.training, iterations=1)
    monkeypatch.setattr(system.module("study").Training, "config", lambda _self: quick)
    names = ("--only", system.before, "--only", system.later)
    assert system.run(*out, *names).exit_code == 0
    first, begun = (tmp_path / system.before / MODEL, tmp_path / system.later / INITIAL)
    assert first.read_bytes() == begun.read_bytes()
    again = system.run(*out, *names)
    assert again.output.count("all iterations done") == 2


@each_system
def test_models_are_gathered_from_runs(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, runs, models = system.module("study"), tmp_path / "runs", tmp_path / "models"
    system.train(runs / system.first)
    with pytest.raises(StudyError, match="not trained with the settings of the study"):
        study.STUDY.gather(runs, models)
    assert not models.exists()

    config = system.load_model(runs / system.first / MODEL).config
    monkeypatch.setattr(study.Training, "config", lambda _self: config)
    assert study.STUDY.gather(runs, models) == [system.first]
    copied = study.Models(models).path / f"{system.first}.safetensors"
    assert copied.read_bytes() == (runs / system.first / MODEL).read_bytes()
    RunFolder.create(runs / system.later, {"kind": "other"}).close()
    (runs / system.later / MODEL).write_text("weights")
    with pytest.raises(StudyError):
        study.STUDY.gather(runs, models)


@each_system
def test_the_command_knows_every_figure(system: System) -> None:
    """It names them itself, as to load them takes a second."""
    assert set(system.module("figures").FIGURES) == set(system.module("cli").FIGURES)
