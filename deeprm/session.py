"""A training from its configuration to a model file."""

from __future__ import annotations

from collections.abc import Sequence

from deeprm.learner import DeepRmLearner
from deeprm.models import save_model
from deeprm.settings import build
from deeprm.training_config import TrainConfig
from rl.checkpoint import load_tensors
from rl.learner import LoopSettings, Observer
from rl.loop import TrainingResult, train
from rl.run_folder import RunFolder
from rl.tensorboard import TensorBoardLog

MODEL = "model.safetensors"


def run_training(
    folder: RunFolder, *, time_limit_s: float | None = None, observers: Sequence[Observer] = ()
) -> TrainingResult:
    """Train as the folder's configuration says, from its checkpoint if there is one.

    Leaves the best model, or without a validation the newest, as `MODEL`.

    Args:
        folder: the run folder, open.
        time_limit_s: stop after so long.
        observers: told of each iteration.

    Raises:
        ValueError: (one line) the configuration or the checkpoint breaks a rule.
        NotFiniteError: a number of the training is not finite.
    """
    config = build(TrainConfig, folder.config)
    learner = DeepRmLearner(config)
    settings = LoopSettings(config.iterations, config.validate_every, time_limit_s=time_limit_s)
    log = TensorBoardLog(folder.path / "tensorboard")
    result = train(learner, folder, settings, (log, *observers))
    has_best = folder.best_file.exists()
    weights = load_tensors(folder.best_file)[0] if has_best else learner.model_state()
    card = {
        "iterations": result.state.next_iteration,
        "best_iteration": result.state.best_iteration,
        "best_score": result.state.best_score,
        "trained_s": round(result.state.elapsed_s, 1),
    }
    save_model(folder.path / MODEL, config, weights, card)
    return result
