"""Models and heuristics side by side, as rows of a table; and one state as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from decima.rl.drawing import save_figure
from decima.rl.statistics import difference_percent, mean_of
from decima.rl.study.lockstep import play_up_to
from decima.rl.study.streams import Purpose
from harmony.clusters import Clusters
from harmony.config import Config
from harmony.drawing import picture_of
from harmony.evaluation import baselines, completion_of
from harmony.figures import samples_of
from harmony.jobs import draw_jobs
from harmony.learned import Learned
from harmony.models import load_model
from harmony.schedulers import Scheduler, Tiresias


def compare(
    config: Config, models: Sequence[Path], sequences: int, seed: int
) -> Iterator[list[str]]:
    """Rows of a table, headings first: completion times, and how far they are from Tiresias.

    Args:
        config: the cluster.
        models: files of policies.
        sequences: how many unseen ones.
        seed: of the sequences and of choices.

    Raises:
        StudyError: a file is no such model.
    """
    # Before anything compiles.
    learned = {str(path): Learned(load_model(path).network.policy, config) for path in models}
    schedulers: dict[str, Scheduler] = dict(baselines(config, samples_of(config))) | learned
    jobs = draw_jobs(config, sequences, seed, Purpose.TEST)
    reference = completion_of(schedulers["tiresias"], config, jobs, seed)
    yield ["scheduler", "completion, intervals, 95 %", "against tiresias, 95 %"]
    for name, scheduler in schedulers.items():
        values = completion_of(scheduler, config, jobs, seed)[None]
        mean, against = mean_of(values), difference_percent(values, reference)
        yield [name, mean.words(".2f"), against.words("+.1f", " %")]


def picture(config: Config, model: Path | None, seed: int, interval: int, output: Path) -> None:
    """Write the tasks on each server, a colour and a number for each job, at an interval, as PNG.

    Raises:
        StudyError: the episode is over before.
        RunError: the file cannot be written.
    """
    scheduler: Scheduler
    if model is None:
        scheduler = Tiresias(config)
    else:
        scheduler = Learned(load_model(model).network.policy, config)
    jobs = draw_jobs(config, 1, seed, Purpose.TEST)
    clusters = Clusters(config, jobs, seed=seed, priority=scheduler.priority(jobs))
    play_up_to(scheduler, clusters, seed, clusters.state.interval, interval, "interval")
    save_figure(picture_of(clusters), output, "png")
