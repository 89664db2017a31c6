"""Speed of DeepRM's cluster and learning, against the project's target.

    python -m benchmarks.deeprm_speed [--model FILE] [--repeats 5]

All times are CPU seconds of one process with one torch thread, the least of some repeats;
compilation and first calls are left out. An iteration is the paper's: 20 episodes of each of 100
job sets, then one update. How many decisions that takes depends on the policy: without `--model`
it is one as a training begins, which lets much time pass.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws, Purpose
from deeprm.config import PAPER
from deeprm.episodes import Episodes
from deeprm.jobs import draw_jobs
from deeprm.learner import DeepRmLearner
from deeprm.models import load_model
from deeprm.schedulers import SJF
from deeprm.training_config import TrainConfig

LOADS = (0.7, 1.3, 1.9)
TARGET_S = 10.0
"""CPU seconds of an iteration; the paper took 80 s on 24 cores"""


def cpu_s(function: Callable[[], object], repeats: int) -> float:
    """The least CPU seconds of some calls."""
    found = []
    for _ in range(repeats):
        begun_s = time.process_time()
        function()
        found.append(time.process_time() - begun_s)
    return min(found)


def simulator(load: float, repeats: int) -> None:
    """Shortest job first on the episodes of an iteration."""
    config = PAPER.at_load(load)
    jobs = draw_jobs(config, 100, 0, Purpose.TRAINING)
    rows = np.repeat(np.arange(100, dtype=np.int32), 20)
    decisions = 0

    def played() -> None:
        nonlocal decisions
        decisions = 0

        def count(acted: np.ndarray, *_: object) -> None:
            nonlocal decisions
            decisions += len(acted)

        play(SJF, Episodes(config, jobs, rows), Draws(0, len(rows)), count)

    played()
    took_s = cpu_s(played, repeats)
    rate = decisions / took_s
    print(f"load {load:.0%}: SJF, 2,000 episodes {took_s:.3f} s, {rate:,.0f} decisions/s")


def iteration(load: float, model: Path | None, repeats: int) -> None:
    """Time one iteration of the paper's training."""
    learner = DeepRmLearner(TrainConfig(cluster=PAPER.at_load(load)))
    if model is not None:
        learner.begin_with(load_model(model).network)
    learner.iterate(0)
    before = learner.state()
    decisions = 0.0

    def again() -> None:
        nonlocal decisions
        learner.load(before)
        decisions = learner.iterate(1)["decisions"]

    took_s = cpu_s(again, repeats)
    verdict = "reached" if took_s < TARGET_S else "MISSED"
    print(
        f"load {load:.0%}: iteration {took_s:.2f} s, {decisions:,.0f} decisions, "
        f"{1e6 * took_s / decisions:.2f} µs each; target {TARGET_S:.0f} s {verdict}"
    )


def main() -> None:
    """Print a line for each load."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for load in LOADS:
        simulator(load, arguments.repeats)
        iteration(load, arguments.model, arguments.repeats)


if __name__ == "__main__":
    main()
