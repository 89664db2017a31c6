"""Compile beforehand what the `deeprm` command needs, by doing everything once and tiny."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Literal

from decima.rl.study.models import MODEL
from deeprm.config import PAPER
from deeprm.evaluation import compare
from deeprm.figures import picture
from deeprm.session import new_run, run_training
from deeprm.training_config import TrainConfig

_POLICIES: tuple[Literal["image", "compact"], ...] = ("image", "compact")


def prepare() -> None:
    """Train both networks for one iteration, and compare them, to fill the cache of machine
    code."""
    tiny = TrainConfig(iterations=1, job_sets=1, episodes=2, validate_every=1, validation_sets=2)
    with tempfile.TemporaryDirectory() as folder:
        models = []
        for policy in _POLICIES:
            with new_run(Path(folder) / policy, replace(tiny, policy=policy)) as run:
                run_training(run)
            models.append(Path(folder) / policy / MODEL)
        for _ in compare(PAPER, "slowdown", models, 2, 0):
            pass
        picture(PAPER, None, 0, 1, Path(folder) / "state.png")
