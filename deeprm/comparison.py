"""Models and heuristics side by side, as rows of a table; and one state as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from decima.rl.drawing import save_figure
from decima.rl.errors import StudyError
from decima.rl.statistics import difference_percent
from decima.rl.study.lockstep import play_up_to
from decima.rl.study.streams import Purpose
from deeprm.config import Config
from deeprm.drawing import picture_of
from deeprm.episodes import Episodes
from deeprm.evaluation import TUNING_SETS, baselines, evaluate
from deeprm.jobs import draw_jobs
from deeprm.models import load_model, scheduler_of
from deeprm.objectives import Objective
from deeprm.schedulers import SJF, Scheduler


def compare(
    config: Config, objective: str, models: Sequence[Path], sets: int, seed: int
) -> Iterator[list[str]]:
    """Rows of a table, headings first: each scheduler's figures, and how far it is from Tetris*.

    Args:
        config: the cluster.
        objective: what Tetris* is tuned for and the difference is taken in.
        models: files of `deeprm.models`.
        sets: how many unseen job sets.
        seed: of the job sets and of choices.

    Raises:
        StudyError: a model is none, or was made for a cluster of another shape.
    """
    learned = {str(path): _learned(path, config) for path in models}  # before anything compiles
    measure = Objective(objective)
    tuning = draw_jobs(config, TUNING_SETS, seed, Purpose.TUNING)
    jobs = draw_jobs(config, sets, seed, Purpose.TEST)
    schedulers = dict(baselines(config, tuning, measure)) | learned
    reference = evaluate(schedulers["tetris"], config, jobs, seed).measure(measure)
    figures = [one.value for one in Objective]
    yield ["scheduler", *figures, "held steps", f"{objective} against tetris, 95 %"]
    for name, scheduler in schedulers.items():
        found = evaluate(scheduler, config, jobs, seed)
        figures = [f"{found.measure(one).mean():.3f}" for one in Objective]
        against = difference_percent(found.measure(measure)[None], reference)
        held = f"{100 * found.held_steps.mean():.1f} %"
        yield [name, *figures, held, against.words("+.1f", " %")]


def picture(config: Config, model: Path | None, seed: int, step: int, output: Path) -> None:
    """Write the first state at or after a time step of a test episode, as PNG.

    Raises:
        StudyError: the episode is over before.
        RunError: the file cannot be written.
    """
    scheduler = SJF if model is None else _learned(model, config)
    episodes = Episodes(config, draw_jobs(config, 1, seed, Purpose.TEST))
    play_up_to(scheduler, episodes, seed, episodes.state.time, step, "step")
    save_figure(picture_of(episodes), output, "png")


def _learned(path: Path, config: Config) -> Scheduler:
    model = load_model(path)
    if not model.network.fits(config):
        raise StudyError(f"{path}: was made for a cluster of another shape")
    return scheduler_of(model)
