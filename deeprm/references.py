"""Reference scores of the validations of a training."""

from __future__ import annotations

import numpy as np

from decima.rl.progress import Reference
from decima.rl.run_folder import RunFolder
from decima.rl.study.streams import Purpose
from deeprm.config import Config
from deeprm.evaluation import TUNING_SETS, evaluate, score_of, tuned_hold, tuned_tetris
from deeprm.jobs import draw_jobs
from deeprm.objectives import Objective
from deeprm.schedulers import SJF
from deeprm.session import config_of
from deeprm.training_config import TrainConfig


def references(folder: RunFolder) -> tuple[Reference, ...]:
    """Tetris*, `hold` and SJF on the job sets that choose the best weights of a run.

    Raises:
        StudyError: the folder is of another kind of training.
    """
    config = config_of(folder)
    objective = Objective(config.objective)
    label = f"{objective.value}, negated" if objective.is_gain else f"average {objective.value}"
    found = [_scores(config, cluster, objective) for cluster in config.clusters]
    return tuple(
        Reference(label, name, float(np.mean([scores[name] for scores in found])))
        for name in found[0]
    )


def _scores(config: TrainConfig, cluster: Config, objective: Objective) -> dict[str, float]:
    """Scores of the heuristics at one load, by name."""
    jobs = draw_jobs(cluster, config.validation_sets, config.seed, Purpose.VALIDATION)
    tuning = draw_jobs(cluster, TUNING_SETS, config.seed, Purpose.TUNING)
    heuristics = {
        "Tetris*": tuned_tetris(cluster, tuning, objective),
        "hold": tuned_hold(cluster, tuning, objective),
        "SJF": SJF,
    }
    return {
        name: score_of(evaluate(one, cluster, jobs, 0), objective)
        for name, one in heuristics.items()
    }
