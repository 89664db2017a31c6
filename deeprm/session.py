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
from deeprm.errors import DeepRmError
from deeprm.learner import DeepRmLearner
from deeprm.models import check_same_network, check_size, load_model, save_model
from deeprm.training_config import TrainConfig
from traces.files.reading import read_bytes
from traces.files.settings import build
from traces.files.writing import write_whole

MODEL, INITIAL = "model.safetensors", "initial.safetensors"


def new_run(path: Path, config: TrainConfig, initial: Path | None = None) -> RunFolder:
    """A run folder to train in, with a copy of the model whose weights it begins with, if any.

    Raises:
        RunError: the folder holds something, or cannot be written.
        DeepRmError: the model is none, or of another network; or what is to be trained is too
            large.
    """
    check_size(config)
    if initial is None:
        return RunFolder.create(path, config.to_json())
    check_same_network(load_model(initial), config)
    folder = RunFolder.create(path, replace(config, initial=True).to_json())
    write_whole(path / INITIAL, read_bytes(initial, DeepRmError), DeepRmError)
    return folder


def config_of(folder: RunFolder) -> TrainConfig:
    """The configuration of a run.

    Raises:
        DeepRmError: it is of another kind of training.
    """
    return build(TrainConfig, folder.config, DeepRmError)


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
    learner = DeepRmLearner(config)
    if config.initial and not folder.checkpoint_file.exists():
        learner.begin_with(load_model(folder.path / INITIAL))
    settings = LoopSettings(config.iterations, config.validate_every, time_limit_s=time_limit_s)
    save = partial(save_model, folder.path / MODEL, config)
    return train_and_save(learner, folder, settings, save, observers)
