"""Evaluation of schedulers on job sequences: mean completion times, in intervals."""

from __future__ import annotations

from collections.abc import Mapping

from harmony.clusters import Clusters
from harmony.config import Config
from harmony.interference import LINEAR, QUADRATIC, fit_lif, fit_pairs
from harmony.samples import Samples
from harmony.schedulers import (
    Draws,
    LeastInterference,
    LoadBalance,
    Lookahead,
    Scheduler,
    Tetris,
    Tiresias,
    play,
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
    clusters = Clusters(config, jobs, seed=seed, priority=scheduler.priority(jobs))
    play(scheduler, clusters, Draws(seed, len(clusters)))
    return clusters.mean_completion()


def baselines(config: Config, samples: Samples) -> Mapping[str, Scheduler]:
    """The heuristics by name: the paper's five, Tiresias without Gittins' index, and the lookahead.

    Args:
        config: the cluster.
        samples: of speeds, which the models of interference are fitted to.
    """
    return {
        "lb": LoadBalance(),
        "tetris": Tetris(),
        "tiresias": Tiresias(config),
        "tiresias_las": Tiresias(config, "las"),
        "lif_linear": LeastInterference(fit_lif(samples, LINEAR)),
        "lif_quad": LeastInterference(fit_lif(samples, QUADRATIC)),
        "lookahead": Lookahead(fit_pairs(config, samples)),
    }
