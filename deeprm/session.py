"""A training from its configuration to a model file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from decima.rl.run_folder import RunFolder
from decima.rl.study.models import INITIAL
from decima.rl.study.trainings import Trainer
from deeprm.learner import DeepRmLearner
from deeprm.models import POLICY, network_to_begin_with
from deeprm.training_config import TrainConfig


def new_run(path: Path, config: TrainConfig, initial: Path | None = None) -> RunFolder:
    """A run folder to train in, with a copy of the model whose weights it begins with, if any.

    Raises:
        RunError: the folder holds something, or cannot be written.
        StudyError: the model is none, or of another network; or what is to be trained is too
            large.
    """
    POLICY.check_size(config)
    if initial is not None:
        network_to_begin_with(initial, config)
        config = replace(config, initial=True)
    return POLICY.new_folder(path, config, {INITIAL: initial})


def _learner(config: TrainConfig, folder: RunFolder) -> DeepRmLearner:
    learner = DeepRmLearner(config)
    if config.initial and not folder.checkpoint_file.exists():
        learner.begin_with(network_to_begin_with(folder.path / INITIAL, config))
    return learner


_TRAINER = Trainer((POLICY,), _learner)
config_of, run_training = _TRAINER.config_of, _TRAINER.run
