"""Compile beforehand what the `harmony` command needs, by doing everything once and tiny."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harmony.comparison import compare
from harmony.config import PAPER
from harmony.reward_config import RewardConfig
from harmony.session import MODEL, new_run, run_training
from harmony.training_config import TrainConfig


def prepare() -> None:
    """Train a policy and a reward model a little, and compare; machine code is kept."""
    few = {"iterations": 1, "validate_every": 1, "samples": 40}
    policy = TrainConfig(**few, imitation=1, replay=32, validation_sequences=1)
    with tempfile.TemporaryDirectory() as folder:
        for name, config in (("reward", RewardConfig(**few)), ("policy", policy)):
            with new_run(Path(folder) / name, config) as run:
                run_training(run)
        for _ in compare(PAPER, [Path(folder) / "policy" / MODEL], 2, 0):
            pass
