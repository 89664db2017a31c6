"""Compare branches that end sooner: what one learns of a choice, and the cost.

    python -m benchmarks.harmony_branches [--servers 30] [--choices 60]

The speeds are analytic. Load balancing places the jobs of some sequences up to one choice in each.
Behind every action of that choice it plays the jobs that are there and the next ones. One line for
each number of jobs to come: CPU milliseconds a choice; the deviation of the total completion time
over the actions, in intervals of 20 minutes; and the advantage of load balancing's own action over
the mean of all actions, in its deviations over the choices.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from decima.rl.study.streams import Draws, Purpose
from harmony.clusters import Clusters
from harmony.config import CONFIGS, MAX_JOBS
from harmony.jobs import draw_jobs
from harmony.schedulers import LoadBalance, Tiresias
from harmony.teachers import Branches

COMING = (0, 3, 8, 20, MAX_JOBS)
PLACED = {"6": 60, "30": 300}
"""tasks that are placed before the choice"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--servers", choices=tuple(CONFIGS), default="30")
    parser.add_argument("--choices", type=int, default=60)
    arguments = parser.parse_args()
    config = replace(CONFIGS[arguments.servers], speed="analytic")
    jobs = draw_jobs(config, arguments.choices, 0, Purpose.TRAINING)
    clusters = Clusters(config, jobs, priority=Tiresias(config).priority(jobs))
    rule, draws = LoadBalance(), Draws(0, len(clusters))
    for _ in range(PLACED[arguments.servers]):
        rows = clusters.under_way()
        clusters.step(rows, rule.choose(clusters, rows, draws))
    rows = clusters.under_way()
    own = rule.choose(clusters, rows, draws)
    Branches(rule, 1.0, 0).outcomes(clusters, rows)  # loads the compiled code
    print(f"{'coming':>6} {'ms':>7} {'deviation':>9} {'advantage':>9}")
    for coming in COMING:
        begun_s = time.process_time()
        total = Branches(rule, 1.0, coming).outcomes(clusters, rows)
        took_ms = 1e3 * (time.process_time() - begun_s) / len(rows)
        finite = np.where(np.isfinite(total), total, np.nan)
        gain = np.nanmean(finite, axis=1) - total[np.arange(len(rows)), own]
        spread = float(np.nanstd(finite, axis=1).mean())
        print(f"{coming:6} {took_ms:7.1f} {spread:9.2f} {gain.mean() / gain.std():9.2f}")


if __name__ == "__main__":
    main()
