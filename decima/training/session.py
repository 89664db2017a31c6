"""A training from its configuration to a model file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from decima.agent.columns import FEATURE_VERSION
from decima.agent.model import SUFFIX, save_model
from decima.errors import ConfigError
from decima.objectives import is_own, objective_title
from decima.rl.checkpoint import load_tensors
from decima.rl.loop import LoopSettings, LoopState, Observer, TrainingResult, train
from decima.rl.run_folder import RunFolder
from decima.rl.tensorboard import TensorBoardLog
from decima.training.config import TrainConfig, config_from
from decima.training.learner import ALL_HERE, CollapsedError, DecimaLearner, Pools
from decima.training.play import ABOVE, REFERENCE

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
    a CollapsedError. The weights do not depend on `pools`. `say` gets lines on the preparation and
    each setting's teacher. A NotFiniteError has the command to replay what was not finite.
    """
    config = config_of(folder)
    is_resumed = folder.checkpoint_file.exists()
    say("preparing: compiled code is loaded in every process")
    ready = _Ready(say)
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
            (TensorBoardLog(folder.path / "tensorboard"), ready, *observers),
        )
    except CollapsedError:
        if folder.best_file.exists():
            _keep_model(folder, config, learner)
        raise
    _keep_model(folder, config, learner)
    return result


class _Ready(Observer):
    """Line before the first iteration; the time until then does not count for `--minutes`."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._began_s = time.monotonic()

    def started(self, state: LoopState, settings: LoopSettings) -> None:
        """Note that everything is compiled and all processes have started."""
        took_s = time.monotonic() - self._began_s
        self._say(f"ready after {took_s:.0f} s, at iteration {state.next_iteration}")


def _keep_model(folder: RunFolder, config: TrainConfig, learner: DecimaLearner) -> None:
    """Write the best model, or the newest where there was no validation, with its card.

    The card says how it was made, and its result on the validation sequences. Times are only in the
    folder's metrics, so that equal trainings give equal bytes.
    """
    weights, best = learner.model_state(), dict[str, Any]()
    if folder.best_file.exists():
        weights, best = load_tensors(folder.best_file)
    traces = {setting.trace for setting in config.workload.evaluations()}
    card = {
        "feature_version": FEATURE_VERSION,
        "trace": ", ".join(sorted(traces)),
        "seed": config.seed,
        "best_iteration": best.get("iteration"),
        "validation_percent_against": REFERENCE,
        "validation": best.get("validation", {}),
        "environment": json.loads(folder.environment_file.read_text("utf-8")),
        "config": config.to_json(),
    }
    save_model(folder.path / MODEL, config.network, weights, card)


_LEVEL = 0.5  # points of percent; smaller differences are noise on so few sequences
_WIDTH = 40  # characters of the longest bar of a curve


def verdict(folder: RunFolder, best_iteration: int) -> str:
    """Describe the best model of a run beside the heuristics, on the validation sequences."""
    title = objective_title(folder.config["objective"])
    (row,) = (row for row in folder.metrics() if row["iteration"] == best_iteration)
    score = row["validation/score"]
    share = 1 + score / 100
    prefix = f"validation/{ABOVE}"
    others = {
        name.removeprefix(prefix): 100 * (share / (1 + above / 100) - 1)
        for name, above in row.items()
        if name.startswith(prefix)
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


def curve(metrics: Iterable[Mapping[str, float]], title: str) -> list[str]:
    """Return lines of the validated rows: iteration, percent above strict fair, a bar of it.

    `title` is what the objective of the training is called.
    """
    rows = [row for row in metrics if "validation/score" in row]
    if not rows:
        return []
    most = max(1.0, *(abs(row["validation/score"]) for row in rows))
    lines = [f"iteration   score   drawn   {title} against strict_fair, percent"]
    for row in rows:
        score, drawn = row["validation/score"], row.get("validation/drawn")
        bar = ("+" if score > 0 else "-") * round(_WIDTH * abs(score) / most)
        words = "" if drawn is None else f"{drawn:+.1f}"
        lines.append(f"{int(row['iteration']) + 1:9,}  {score:+6.1f}  {words:>6}   {bar}")
    return lines
