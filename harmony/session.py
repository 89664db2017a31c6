"""A training from its configuration to a model file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from decima.rl.learner import LoopSettings, Observer
from decima.rl.loop import TrainingResult
from decima.rl.run_folder import RunFolder
from decima.rl.session import train_and_save
from harmony.errors import HarmonyError
from harmony.learned import PredictedSpeeds
from harmony.learner import HarmonyLearner
from harmony.models import (
    check_same_network,
    check_size,
    described,
    load_model,
    load_reward_model,
    save_model,
)
from harmony.reward_config import RewardConfig
from harmony.reward_learner import RewardLearner
from harmony.training_config import TrainConfig
from traces.files.reading import read_bytes
from traces.files.settings import build
from traces.files.writing import write_whole

MODEL, INITIAL, REWARD = "model.safetensors", "initial.safetensors", "reward.safetensors"

AnyConfig = TrainConfig | RewardConfig


def new_run(
    path: Path, config: AnyConfig, initial: Path | None = None, reward: Path | None = None
) -> RunFolder:
    """A run folder to train in, with copies of the models that it begins with or trains on.

    Args:
        path: of the folder.
        config: of the training.
        initial: a policy whose weights it begins with.
        reward: a reward model, for `world = "model"`.

    Raises:
        RunError: the folder holds something, or cannot be written.
        HarmonyError: a model is none, of another network, or not asked for; or what is to be
            trained is too large.
    """
    check_size(config)
    copies = {}
    if initial is not None:
        if isinstance(config, RewardConfig):
            raise HarmonyError("a reward model begins with weights of its own")
        check_same_network(load_model(initial).network, config)
        config = replace(config, initial=True)
        copies[INITIAL] = read_bytes(initial, HarmonyError)
    needs_reward = isinstance(config, TrainConfig) and config.world == "model"
    if needs_reward != (reward is not None):
        raise HarmonyError("a reward model is needed where world = model, and nowhere else")
    if reward is not None:
        load_reward_model(reward)
        copies[REWARD] = read_bytes(reward, HarmonyError)
    folder = RunFolder.create(path, described(config))
    for name, content in copies.items():
        write_whole(path / name, content, HarmonyError)
    return folder


def config_of(folder: RunFolder) -> AnyConfig:
    """The configuration of a run.

    Raises:
        HarmonyError: it is no such model.
    """
    content = folder.config
    kinds: dict[str, type[AnyConfig]] = {"policy": TrainConfig, "reward model": RewardConfig}
    kind = content.get("kind")
    if kind not in kinds or not isinstance(content.get("config"), dict):
        raise HarmonyError(f"{folder.path}: no training of harmony")
    return build(kinds[kind], content["config"], HarmonyError)


def run_training(
    folder: RunFolder, *, time_limit_s: float | None = None, observers: Sequence[Observer] = ()
) -> TrainingResult:
    """Train by the folder's configuration, from its checkpoint if there is one.

    Leaves the best model, or without a validation the newest, as `MODEL`; nothing if no iteration
    was done.

    Args:
        folder: the run folder, open.
        time_limit_s: stop after so long.
        observers: called after each iteration.

    Raises:
        ValueError: (one line) the configuration or the checkpoint breaks a rule.
        NotFiniteError: a number of the training is not finite.
    """
    config = config_of(folder)
    learner = RewardLearner(config) if isinstance(config, RewardConfig) else _policy(config, folder)
    settings = LoopSettings(config.iterations, config.validate_every, time_limit_s=time_limit_s)
    save = partial(save_model, folder.path / MODEL, config)
    return train_and_save(learner, folder, settings, save, observers)


def _policy(config: TrainConfig, folder: RunFolder) -> HarmonyLearner:
    predictor = None
    if config.world == "model":
        predictor = PredictedSpeeds(load_reward_model(folder.path / REWARD).network)
    learner = HarmonyLearner(config, predictor)
    if config.initial and not folder.checkpoint_file.exists():
        learner.begin_with(load_model(folder.path / INITIAL).network)
    return learner
