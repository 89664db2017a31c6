"""Speed of Harmony's cluster and policy, against the project's targets.

    python -m benchmarks.harmony_speed [--repeats 5]

All times are CPU seconds of one process with one torch thread, the least of some repeats;
compilation and first calls are left out. A placement is one worker or parameter server.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws, Purpose
from harmony.clusters import Clusters
from harmony.config import CONFIGS, Config
from harmony.jobs import draw_jobs
from harmony.learned import Learned
from harmony.models import new_network
from harmony.network import Size
from harmony.schedulers import LoadBalance, Lookahead, Scheduler, Tiresias

TARGET_PER_S = 5_000
TARGET_MS = 4.0
EPISODES = 64
WIDTHS = (128, 64, 32)
"""of the policy's network; the first is that of the paper"""


def cpu_s(function: Callable[[], object], repeats: int) -> float:
    """The least CPU seconds of some calls, after one that is not counted."""
    found = []
    for _ in range(repeats + 1):
        begun_s = time.process_time()
        function()
        found.append(time.process_time() - begun_s)
    return min(found[1:])


def rollouts(config: Config, name: str, scheduler: Scheduler, repeats: int, episodes: int) -> None:
    """Episodes in lockstep, to their ends."""
    jobs = draw_jobs(config, episodes, 0, Purpose.TRAINING)
    placements = int(jobs.workers.sum() + jobs.ps.sum())

    def played() -> None:
        clusters = Clusters(config, jobs, priority=scheduler.priority(jobs))
        play(scheduler, clusters, Draws(0, episodes))

    rate = placements / cpu_s(played, repeats)
    verdict = "reached" if rate >= TARGET_PER_S else "MISSED"
    target = f"target {TARGET_PER_S:,} {verdict}"
    print(f"{config.servers} servers, {name}: {rate:,.0f} placements/s; {target}")


def decision(config: Config, scheduler: Scheduler, repeats: int) -> None:
    """One choice in one cluster, in the middle of an episode."""
    clusters = Clusters(config, draw_jobs(config, 1, 0, Purpose.TRAINING))
    rows, draws = np.zeros(1, np.int32), Draws(0, 1)
    for _ in range(60):
        clusters.step(rows, LoadBalance().choose(clusters, rows, draws))
    took_ms = 1e3 * cpu_s(lambda: scheduler.choose(clusters, rows, draws), 10 * repeats)
    verdict = "reached" if took_ms < TARGET_MS else "MISSED"
    print(f"{config.servers} servers: a decision {took_ms:.2f} ms; target {TARGET_MS} {verdict}")


def main() -> None:
    """Print a line for each scheduler and cluster."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    for config in CONFIGS.values():
        policy = Learned(new_network(Size()).policy, config)
        rollouts(config, "load balancing", LoadBalance(), repeats, EPISODES)
        rollouts(config, "Tiresias", Tiresias(config), repeats, EPISODES)
        if config.servers < 10:
            rollouts(config, "lookahead", Lookahead(None), repeats, EPISODES)
            for width in WIDTHS:
                narrow = Learned(new_network(Size(width=width)).policy, config)
                rollouts(config, f"policy of width {width}", narrow, 1, EPISODES)
        decision(config, policy, repeats)


if __name__ == "__main__":
    main()
