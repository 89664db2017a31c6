"""A training from its configuration to a model file, and the scores to compare it with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from decima.rl.errors import StudyError
from decima.rl.progress import Reference
from decima.rl.run_folder import RunFolder
from decima.rl.study.models import INITIAL
from decima.rl.study.trainings import Trainer
from harmony.learner import HarmonyLearner, RewardLearner, validation_of
from harmony.models import (
    POLICY,
    REWARD_MODEL,
    PredictedSpeeds,
    check_network,
    kind_of,
    load_reward_model,
    network_to_begin_with,
)
from harmony.schedulers import LoadBalance, Tiresias
from harmony.training_config import RewardConfig, TrainConfig

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
        StudyError: a model is none, of another network, or not asked for; or what is to be
            trained is too large.
    """
    kind = kind_of(config)
    kind.check_size(config)
    check_network(config.size.models, config.size.gpu_types, config.cluster)
    if initial is not None:
        if isinstance(config, RewardConfig):
            raise StudyError("a reward model begins with weights of its own")
        network_to_begin_with(initial, config)
        config = replace(config, initial=True)
    needs_reward = isinstance(config, TrainConfig) and config.world == "model"
    if needs_reward != (reward is not None):
        raise StudyError("a reward model is needed where world = model, and nowhere else")
    if reward is not None:
        load_reward_model(reward)
    return kind.new_folder(path, config, {INITIAL: initial, REWARD: reward})


def references(folder: RunFolder) -> tuple[Reference, ...]:
    """Tiresias and LB on the sequences that choose the best weights of a policy; else nothing.

    Raises:
        StudyError: the folder is of another kind of training.
    """
    config = config_of(folder)
    if not isinstance(config, TrainConfig):
        return ()
    label = "geometric mean of completion times in intervals"
    heuristics = {"Tiresias": Tiresias(config.cluster), "LB": LoadBalance()}
    return tuple(
        Reference(label, name, validation_of(scheduler, config)["score"], is_log=True)
        for name, scheduler in heuristics.items()
    )


def _learner(config: AnyConfig, folder: RunFolder) -> HarmonyLearner | RewardLearner:
    if isinstance(config, RewardConfig):
        return RewardLearner(config)
    predictor = None
    if config.world == "model":
        predictor = PredictedSpeeds(load_reward_model(folder.path / REWARD).network)
    learner = HarmonyLearner(config, predictor)
    if config.initial and not folder.checkpoint_file.exists():
        learner.begin_with(network_to_begin_with(folder.path / INITIAL, config))
    return learner


_TRAINER = Trainer((POLICY, REWARD_MODEL), _learner)
config_of, run_training = _TRAINER.config_of, _TRAINER.run
