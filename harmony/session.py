"""A training from its configuration to a model file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from decima.rl.learner import Observer
from decima.rl.loop import TrainingResult
from decima.rl.run_folder import RunFolder
from decima.rl.study.models import INITIAL, new_folder
from harmony.errors import HarmonyError
from harmony.learned import PredictedSpeeds
from harmony.learner import HarmonyLearner
from harmony.models import check_same_network, described, kind_of, load_model, load_reward_model
from harmony.reward_config import RewardConfig
from harmony.reward_learner import RewardLearner
from harmony.training_config import TrainConfig
from traces.files.settings import build

REWARD = "reward.safetensors"

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
    kind_of(config).check_size(config)
    copies = {}
    if initial is not None:
        if isinstance(config, RewardConfig):
            raise HarmonyError("a reward model begins with weights of its own")
        check_same_network(load_model(initial).network, config)
        config = replace(config, initial=True)
        copies[INITIAL] = initial
    needs_reward = isinstance(config, TrainConfig) and config.world == "model"
    if needs_reward != (reward is not None):
        raise HarmonyError("a reward model is needed where world = model, and nowhere else")
    if reward is not None:
        load_reward_model(reward)
        copies[REWARD] = reward
    return new_folder(path, described(config), copies, HarmonyError)


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
    """Train by the folder's configuration; see `ModelKind.train`."""
    config = config_of(folder)
    learner = RewardLearner(config) if isinstance(config, RewardConfig) else _policy(config, folder)
    return kind_of(config).train(learner, folder, config, time_limit_s, observers)


def _policy(config: TrainConfig, folder: RunFolder) -> HarmonyLearner:
    predictor = None
    if config.world == "model":
        predictor = PredictedSpeeds(load_reward_model(folder.path / REWARD).network)
    learner = HarmonyLearner(config, predictor)
    if config.initial and not folder.checkpoint_file.exists():
        learner.begin_with(load_model(folder.path / INITIAL).network)
    return learner
