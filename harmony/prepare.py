"""Compile beforehand what the `harmony` command needs, by doing everything once and tiny."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from decima.rl.study.models import MODEL
from decima.rl.study.streams import Purpose
from harmony.config import PAPER
from harmony.evaluation import baselines, completion_of
from harmony.interference import draw_samples
from harmony.jobs import draw_jobs
from harmony.models import Learned, load_model
from harmony.network import Size
from harmony.session import new_run, run_training
from harmony.training_config import RewardConfig, TrainConfig

_CLUSTER = replace(PAPER, jobs=3)
_SIZE = Size(width=8, layers=1, heads=1)
_SAMPLES = 40


def prepare() -> None:
    """Train a policy and a reward model a little, and compare, to fill the cache of machine
    code."""
    policy = TrainConfig(
        cluster=_CLUSTER, size=_SIZE, iterations=1, replay=8, imitation=1, samples=_SAMPLES,
        validate_every=1, validation_sequences=1,
    )  # fmt: skip
    reward = RewardConfig(cluster=_CLUSTER, size=_SIZE, iterations=1, samples=_SAMPLES)
    schedulers = baselines(_CLUSTER, draw_samples(_CLUSTER, _SAMPLES, 0))
    with tempfile.TemporaryDirectory() as folder:
        for name, config in (("reward", reward), ("policy", policy)):
            with new_run(Path(folder) / name, config) as run:
                run_training(run)
        network = load_model(Path(folder) / "policy" / MODEL).network.policy
    jobs = draw_jobs(_CLUSTER, 2, 0, Purpose.TEST)
    for scheduler in (*schedulers.values(), Learned(network, _CLUSTER)):
        completion_of(scheduler, _CLUSTER, jobs, 0)
