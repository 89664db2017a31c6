"""A training from its configuration to a model file, and the scores to compare it with."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from decima.rl.errors import StudyError
from decima.rl.progress import Reference
from decima.rl.run_folder import RunFolder
from decima.rl.study.models import INITIAL, MODEL
from decima.rl.study.streams import Purpose
from decima.rl.study.trainings import Trainer
from harmony.config import PAPER
from harmony.evaluation import baselines, completion_of
from harmony.interference import draw_samples
from harmony.jobs import draw_jobs
from harmony.learner import HarmonyLearner, RewardLearner, validation_of
from harmony.models import (
    POLICY,
    REWARD_MODEL,
    Learned,
    PredictedSpeeds,
    check_network,
    kind_of,
    load_model,
    load_reward_model,
    network_to_begin_with,
)
from harmony.network import Size
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

    Raises RunError if the folder holds something or cannot be written, StudyError if a model is
    none, of another network or not asked for, or what is to be trained is too large.
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

    Raises StudyError if the folder is of another kind of training.
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


def prepare() -> None:
    """Train a policy and a reward model and compare, all tiny, to compile every kernel."""
    cluster, size, samples = replace(PAPER, jobs=3), Size(width=8, layers=1, heads=1), 40
    policy = TrainConfig(
        cluster=cluster, size=size, iterations=1, replay=8, imitation=1, samples=samples,
        validate_every=1, validation_sequences=1,
    )  # fmt: skip
    reward = RewardConfig(cluster=cluster, size=size, iterations=1, samples=samples)
    schedulers = baselines(cluster, draw_samples(cluster, samples, 0))
    with tempfile.TemporaryDirectory() as folder:
        for name, config in (("reward", reward), ("policy", policy)):
            with new_run(Path(folder) / name, config) as run:
                run_training(run)
        network = load_model(Path(folder) / "policy" / MODEL).network.policy
    jobs = draw_jobs(cluster, 2, 0, Purpose.TEST)
    for scheduler in (*schedulers.values(), Learned(network, cluster)):
        completion_of(scheduler, cluster, jobs, 0)
