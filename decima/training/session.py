"""A training from its configuration to a model file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from decima.agent.columns import FEATURE_VERSION
from decima.agent.model import SUFFIX, save_model
from decima.errors import ConfigError
from decima.objectives import is_own, objective_title
from decima.rl.checkpoint import load_tensors
from decima.rl.learner import LoopSettings, Observer
from decima.rl.loop import TrainingResult, train
from decima.rl.run_folder import RunFolder
from decima.rl.tensorboard import TensorBoardLog
from decima.training.config import TrainConfig, config_from
from decima.training.learner import ALL_HERE, CollapsedError, DecimaLearner, Pools
from decima.training.rollouts import ABOVE, REFERENCE

MODEL = f"model{SUFFIX}"


def config_of(folder: RunFolder) -> TrainConfig:
    """Return the configuration of a run; ConfigError if another version wrote it."""
    try:
        return config_from(folder.config)
    except ConfigError as error:
        raise ConfigError(f"{folder.config_file}: {error}") from error


def check_resumed(config: TrainConfig, objective: str | None) -> None:
    """Raise ConfigError unless a run may be resumed with the objective that the command names.

    A function of one's own is code, which a file such as a run's must not cause to run: the command
    names it again.
    """
    if objective is not None and objective != config.objective:
        raise ConfigError(f"objective {objective!r}: this run minimises {config.objective!r}")
    if objective is None and is_own(config.objective):
        raise ConfigError(
            f"objective {config.objective!r} of this run is code of your own: to run it, give "
            f"--objective {config.objective} again"
        )


def run_training(
    folder: RunFolder,
    *,
    pools: Pools = ALL_HERE,
    time_limit_s: float | None = None,
    observers: Sequence[Observer] = (),
    say: Callable[[str], None] = lambda _: None,
) -> TrainingResult:
    """Train by the folder's configuration, from its checkpoint if there is one.

    Leaves the best model, or without a validation the newest, with its card as `MODEL`, also after
    a CollapsedError. The weights do not depend on `pools`. `say` gets a line for each setting, with
    its teacher. A NotFiniteError has the command to replay what was not finite.
    """
    config = config_of(folder)
    is_resumed = folder.checkpoint_file.exists()
    learner = DecimaLearner(config, pools, is_resumed=is_resumed)
    for line in learner.teacher_lines():
        say(line)
    try:
        result = train(
            learner,
            folder,
            LoopSettings(
                iterations=config.iterations,
                validate_every=config.validation.every,
                patience=config.validation.patience,
                time_limit_s=time_limit_s,
            ),
            (TensorBoardLog(folder.path / "tensorboard"), *observers),
        )
    except CollapsedError:
        if folder.best_file.exists():
            _keep_model(folder, config, learner)
        raise
    _keep_model(folder, config, learner)
    return result


def _keep_model(folder: RunFolder, config: TrainConfig, learner: DecimaLearner) -> None:
    """Write the best model, or the newest where there was no validation."""
    facts: dict[str, Any] = {}
    weights = learner.model_state()
    if folder.best_file.exists():
        weights, facts = load_tensors(folder.best_file)
    save_model(folder.path / MODEL, config.network, weights, _card(folder, config, facts))


_LEVEL = 0.5  # points of percent; smaller differences are noise on so few sequences


def verdict(folder: RunFolder, best_iteration: int) -> str:
    """Describe the best model of a run beside the heuristics, on the validation sequences."""
    title = objective_title(folder.config["objective"])
    found = _validation(folder, best_iteration)
    score = found["score"]
    share = 1 + score / 100
    others = {
        name.removeprefix(ABOVE): 100 * (share / (1 + above / 100) - 1)
        for name, above in found.items()
        if name.startswith(ABOVE)
    }
    best = min(others, key=lambda name: others[name])
    reached = f"{title} {score:+.1f} % against {REFERENCE} on the held-out sequences that chose it"
    ahead = others[best] - score
    if score < 0.0 and abs(ahead) < _LEVEL:
        return (
            f"{reached}; that is level with {best} at {others[best]:+.1f} %, which needs no "
            "network: train longer, or use either"
        )
    if score < 0.0 and ahead > 0.0:
        return (
            f"{reached}; the best heuristic, {best}, reaches {others[best]:+.1f} %: use the model"
        )
    instead = best if others[best] < 0 else REFERENCE
    return (
        f"{reached}, where {best} reaches {others[best]:+.1f} %: train longer, or use {instead} "
        "(`decima tune` and `decima fit-rule` fit heuristics to a workload)"
    )


def _validation(folder: RunFolder, iteration: int | None) -> dict[str, float]:
    """Return the validation metrics of an iteration."""
    return {
        name.removeprefix("validation/"): value
        for row in folder.metrics()
        if row["iteration"] == iteration
        for name, value in row.items()
        if name.startswith("validation/")
    }


def _card(folder: RunFolder, config: TrainConfig, best: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model's card: how it was made, and its result on the validation sequences.

    Times are only in the folder's metrics, so that equal trainings give equal bytes.
    """
    return {
        "feature_version": FEATURE_VERSION,
        "trace": ", ".join(sorted({one.trace for one in config.workload.evaluations()})),
        "seed": config.seed,
        "best_iteration": best.get("iteration"),
        "validation_percent_against": REFERENCE,
        "validation": best.get("validation", {}),
        "environment": json.loads(folder.environment_file.read_text("utf-8")),
        "config": config.to_json(),
    }
