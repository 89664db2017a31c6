"""A training from its configuration to a model file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from decima.rl.learner import Observer
from decima.rl.loop import TrainingResult
from decima.rl.run_folder import RunFolder
from decima.rl.study.models import INITIAL, new_folder
from deeprm.errors import DeepRmError
from deeprm.learner import DeepRmLearner
from deeprm.models import POLICY, check_same_network, load_model
from deeprm.training_config import TrainConfig
from traces.files.settings import build


def new_run(path: Path, config: TrainConfig, initial: Path | None = None) -> RunFolder:
    """A run folder to train in, with a copy of the model whose weights it begins with, if any.

    Raises:
        RunError: the folder holds something, or cannot be written.
        DeepRmError: the model is none, or of another network; or what is to be trained is too
            large.
    """
    POLICY.check_size(config)
    if initial is None:
        return new_folder(path, config.to_json(), {}, DeepRmError)
    check_same_network(load_model(initial), config)
    begins = replace(config, initial=True)
    return new_folder(path, begins.to_json(), {INITIAL: initial}, DeepRmError)


def config_of(folder: RunFolder) -> TrainConfig:
    """The configuration of a run.

    Raises:
        DeepRmError: it is of another kind of training.
    """
    return build(TrainConfig, folder.config, DeepRmError)


def run_training(
    folder: RunFolder, *, time_limit_s: float | None = None, observers: Sequence[Observer] = ()
) -> TrainingResult:
    """Train by the folder's configuration; see `ModelKind.train`."""
    config = config_of(folder)
    learner = DeepRmLearner(config)
    if config.initial and not folder.checkpoint_file.exists():
        learner.begin_with(load_model(folder.path / INITIAL))
    return POLICY.train(learner, folder, config, time_limit_s, observers)
