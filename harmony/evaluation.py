"""Evaluation and comparison of schedulers on sequences: mean completion times, in intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from decima.rl.statistics import difference_percent, mean_of, mean_of_chosen
from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws, Purpose
from harmony.clusters import Clusters
from harmony.config import Config
from harmony.interference import LINEAR, QUADRATIC, Samples, fit_lif, fit_pairs, samples_of
from harmony.jobs import draw_jobs
from harmony.models import Learned, load_model
from harmony.schedulers import (
    InOrder,
    LeastInterference,
    LoadBalance,
    Lookahead,
    Scheduler,
    Tetris,
    Tiresias,
)
from harmony.tables import Float64, Jobs


def completion_of(scheduler: Scheduler, config: Config, jobs: Jobs, seed: int) -> Float64:
    """(S,) mean time from arrival to completion in each of S sequences under a scheduler.

    In intervals; see `played`.
    """
    return played(scheduler, config, jobs, seed).mean_completion()


def played(scheduler: Scheduler, config: Config, jobs: Jobs, seed: int) -> Clusters:
    """Clusters after a scheduler has played each sequence once.

    `seed` is of what is random in choices and speeds.
    """
    clusters = Clusters(config, jobs, seed=seed, priority=scheduler.priority(jobs))
    play(scheduler, clusters, Draws(seed, len(clusters)))
    return clusters


def completion_by_type(clusters: Clusters, model: int) -> Float64:
    """(E,) mean time to completion of the jobs of one type, in intervals.

    An episode without any has the mean of all episodes.
    """
    jobs, rows = clusters.jobs, clusters.state.jobs_of
    completion = clusters.completion_min() / clusters.config.interval_min
    exists = np.arange(completion.shape[1]) < jobs.number[rows][:, None]
    return mean_of_chosen(completion, exists & (jobs.model[rows] == model))


def baselines(config: Config, samples: Samples) -> Mapping[str, Scheduler]:
    """The heuristics by name: the paper's five and `lookahead`, each in both queue orders.

    Waiting jobs are served in the order of arrival, or as `NAME_gittins` by Tiresias' 2D Gittins
    index, which the learned policy uses too. Tiresias itself has the index; `tiresias_las` places
    alike and serves in the order of arrival.

    Args:
        config: the cluster.
        samples: of speeds, which the models of interference are fitted to.
    """
    tiresias, gpus = Tiresias(config), len(config.gpu_table)
    by_arrival: dict[str, Scheduler] = {
        "lb": LoadBalance(),
        "tetris": Tetris(),
        "lif_linear": LeastInterference(fit_lif(samples, LINEAR, gpus)),
        "lif_quad": LeastInterference(fit_lif(samples, QUADRATIC, gpus)),
        "lookahead": Lookahead(fit_pairs(config, samples)),
    }
    schedulers: dict[str, Scheduler] = {
        "tiresias": tiresias,
        "tiresias_las": Tiresias(config, "las"),
    }
    for name, scheduler in by_arrival.items():
        schedulers |= {name: scheduler, f"{name}_gittins": InOrder(scheduler, tiresias)}
    return schedulers


def compare(
    config: Config, models: Sequence[Path], sequences: int, seed: int
) -> Iterator[list[str]]:
    """Rows of a table, headings first: completion times, and how far they are from Tiresias.

    Args:
        config: the cluster.
        models: files of policies.
        sequences: how many unseen ones.
        seed: of the sequences and of choices.

    Raises StudyError if a file is no such model.
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
