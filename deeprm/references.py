"""Reference scores of the validations of a training."""

from __future__ import annotations

from decima.rl.progress import Reference
from decima.rl.run_folder import RunFolder
from decima.rl.study.streams import Purpose
from deeprm.evaluation import TUNING_SETS, evaluate, score_of, tuned_hold, tuned_tetris
from deeprm.jobs import draw_jobs
from deeprm.objectives import Objective
from deeprm.schedulers import SJF
from deeprm.session import config_of


def references(folder: RunFolder) -> tuple[Reference, ...]:
    """Tetris*, `hold` and SJF on the job sets that choose the best weights of a run.

    Raises:
        StudyError: the folder is of another kind of training.
    """
    config = config_of(folder)
    objective = Objective(config.objective)
    jobs = draw_jobs(config.cluster, config.validation_sets, config.seed, Purpose.VALIDATION)
    tuning = draw_jobs(config.cluster, TUNING_SETS, config.seed, Purpose.TUNING)
    heuristics = {
        "Tetris*": tuned_tetris(config.cluster, tuning, objective),
        "hold": tuned_hold(config.cluster, tuning, objective),
        "SJF": SJF,
    }
    label = f"{objective.value}, negated" if objective.is_gain else f"average {objective.value}"
    return tuple(
        Reference(label, name, score_of(evaluate(one, config.cluster, jobs, 0), objective))
        for name, one in heuristics.items()
    )
