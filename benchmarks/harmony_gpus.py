"""Harmony on servers with two types of GPU: policies that ignore them, that see them, heuristics.

    python -m benchmarks.harmony_gpus --ignore MODEL ... --see MODEL ... [--sequences 100]

Four servers have P100s, two have V100s that are twice as fast; three of ten jobs need one type.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from decima.rl.statistics import difference_percent, mean_of
from decima.rl.study.streams import Purpose
from decima.rl.tables import print_rows
from harmony.config import PAPER
from harmony.evaluation import baselines, completion_of
from harmony.figures import samples_of
from harmony.jobs import draw_jobs
from harmony.learned import Learned
from harmony.models import load_model
from harmony.schedulers import Scheduler
from harmony.tables import Float64

MIXED = replace(PAPER, gpu_types=("P100:4:1", "V100:2:2"), gpu_required_share=0.3)


def completions(schedulers: Sequence[Scheduler], sequences: int, seed: int) -> Float64:
    """(P, S) mean completion times in intervals."""
    jobs = draw_jobs(MIXED, sequences, seed, Purpose.TEST)
    return np.stack([completion_of(one, MIXED, jobs, seed) for one in schedulers])


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ignore", type=Path, nargs="*", default=[])
    parser.add_argument("--see", type=Path, nargs="*", default=[])
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7042)
    asked = parser.parse_args()

    groups: dict[str, list[Scheduler]] = {
        name: [one] for name, one in baselines(MIXED, samples_of(MIXED, asked.seed)).items()
    }
    for name, paths in (("policy, ignores types", asked.ignore), ("policy, sees types", asked.see)):
        if paths:
            networks = [load_model(path).network.policy for path in paths]
            groups[name] = [Learned(network, MIXED) for network in networks]
    found = {name: completions(own, asked.sequences, asked.seed) for name, own in groups.items()}
    means = ([name, mean_of(one).words(".2f")] for name, one in found.items())
    print_rows(["scheduler", "completion, intervals, 95 %"], means)
    learned = [name for name in found if name.startswith("policy")]
    differences = (
        [name, *[difference_percent(found[own], one).words("+.1f", " %") for own in learned]]
        for name, one in found.items()
    )
    print_rows(["against", *learned], differences)


if __name__ == "__main__":
    main()
