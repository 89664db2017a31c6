"""Evaluation of schedulers on job sequences: mean completion times, in intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from decima.rl.statistics import mean_of_chosen
from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws
from harmony.clusters import Clusters
from harmony.config import Config
from harmony.interference import LINEAR, QUADRATIC, fit_lif, fit_pairs
from harmony.samples import Samples
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

PAPERS = ("lb", "tetris", "tiresias", "lif_linear", "lif_quad")
"""the paper's baselines, by the names in `baselines`"""


def completion_of(scheduler: Scheduler, config: Config, jobs: Jobs, seed: int) -> Float64:
    """Let a scheduler play each sequence once.

    Args:
        scheduler: who places.
        config: the cluster.
        jobs: S sequences.
        seed: of what is random in choices and speeds.

    Returns:
        (S,) mean time from arrival to completion over the jobs of each sequence, in intervals.
    """
    return played(scheduler, config, jobs, seed).mean_completion()


def played(scheduler: Scheduler, config: Config, jobs: Jobs, seed: int) -> Clusters:
    """Clusters after a scheduler has played each sequence once; see `completion_of`."""
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
    found: dict[str, Scheduler] = {
        "tiresias": tiresias,
        "tiresias_las": Tiresias(config, "las"),
    }
    for name, one in by_arrival.items():
        found |= {name: one, f"{name}_gittins": InOrder(one, tiresias)}
    return found
