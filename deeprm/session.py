"""A training from its configuration to a model file, and the scores to compare it with."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from decima.rl.progress import Reference
from decima.rl.run_folder import RunFolder
from decima.rl.study.models import INITIAL, MODEL
from decima.rl.study.streams import Purpose
from decima.rl.study.trainings import Trainer
from deeprm.config import PAPER
from deeprm.evaluation import TUNING_SETS, compare, evaluate, score_of, tuned_hold, tuned_tetris
from deeprm.jobs import draw_jobs
from deeprm.learner import DeepRmLearner
from deeprm.objectives import Objective
from deeprm.schedulers import POLICY, SJF, network_to_begin_with
from deeprm.training_config import TrainConfig


def new_run(path: Path, config: TrainConfig, initial: Path | None = None) -> RunFolder:
    """A run folder to train in, with a copy of the model whose weights it begins with, if any.

    Raises RunError if the folder holds something or cannot be written, StudyError if the model is
    none or of another network, or what is to be trained is too large.
    """
    POLICY.check_size(config)
    if initial is not None:
        network_to_begin_with(initial, config)
        config = replace(config, initial=True)
    return POLICY.new_folder(path, config, {INITIAL: initial})


def references(folder: RunFolder) -> tuple[Reference, ...]:
    """Tetris*, `hold` and SJF on the job sets that choose the best weights of a run.

    Raises StudyError if the folder is of another kind of training.
    """
    config = config_of(folder)
    objective = Objective(config.objective)
    scores: dict[str, list[float]] = {"Tetris*": [], "hold": [], "SJF": []}
    for cluster in config.clusters:
        jobs = draw_jobs(cluster, config.validation_sets, config.seed, Purpose.VALIDATION)
        tuning = draw_jobs(cluster, TUNING_SETS, config.seed, Purpose.TUNING)
        heuristics = {
            "Tetris*": tuned_tetris(cluster, tuning, objective),
            "hold": tuned_hold(cluster, tuning, objective),
            "SJF": SJF,
        }
        for name, scheduler in heuristics.items():
            scores[name].append(score_of(evaluate(scheduler, cluster, jobs, 0), objective))
    label = f"{objective.value}, negated" if objective.is_gain else f"average {objective.value}"
    return tuple(Reference(label, name, float(np.mean(of))) for name, of in scores.items())


def _learner(config: TrainConfig, folder: RunFolder) -> DeepRmLearner:
    learner = DeepRmLearner(config)
    if config.initial and not folder.checkpoint_file.exists():
        learner.begin_with(network_to_begin_with(folder.path / INITIAL, config))
    return learner


_TRAINER = Trainer((POLICY,), _learner)
config_of, run_training = _TRAINER.config_of, _TRAINER.run


def prepare() -> None:
    """Train both networks, compare them and draw a picture, all tiny, to compile every kernel."""
    from deeprm.figures import picture  # loads matplotlib

    tiny = TrainConfig(iterations=1, job_sets=1, episodes=2, validate_every=1, validation_sets=2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for config in (tiny, replace(tiny, policy="compact")):
            with new_run(folder / config.policy, config) as run:
                run_training(run)
        models = [folder / policy / MODEL for policy in ("image", "compact")]
        for _ in compare(PAPER, "slowdown", models, 2, 0):
            pass
        picture(PAPER, None, 0, 1, folder / "state.png")
