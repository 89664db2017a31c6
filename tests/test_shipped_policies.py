"""The shipped policies of DeepRM and Harmony: with their weights at zero they are far worse.

Slow (over fifty models play): `pytest -m slow tests/test_shipped_policies.py`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from decima.rl.study.streams import Purpose
from deeprm.evaluation import evaluate
from deeprm.jobs import draw_jobs as draw_job_sets
from deeprm.objectives import Objective
from deeprm.schedulers import load_model as load_deeprm
from deeprm.schedulers import scheduler_of
from harmony.evaluation import completion_of
from harmony.jobs import draw_jobs
from harmony.models import Learned
from harmony.models import load_model as load_harmony

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DEEPRM = sorted((ROOT / "deeprm" / "data").glob("*.safetensors"))
HARMONY = [
    path
    for path in sorted((ROOT / "harmony" / "data").glob("*.safetensors"))
    if path.name.startswith(("policy", "analytic", "model"))
]


def name_of(path: Path) -> str:
    return path.stem


def without_weights(network: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()


@pytest.mark.parametrize("path", DEEPRM, ids=name_of)
def test_a_policy_of_deeprm_needs_its_weights(path: Path) -> None:
    """By its own objective, on ten job sets at the load that it learned from."""
    model = load_deeprm(path)
    config, objective = model.config.cluster, Objective(model.config.objective)
    jobs = draw_job_sets(config, 10, 5, Purpose.TEST)
    with_them = evaluate(scheduler_of(model), config, jobs, 0).measure(objective).mean()
    without_weights(model.network)
    without = evaluate(scheduler_of(model), config, jobs, 0).measure(objective).mean()
    assert without < 0.99 * with_them if objective.is_gain else without > 1.01 * with_them


@pytest.mark.parametrize("path", HARMONY, ids=name_of)
def test_a_policy_of_harmony_needs_its_weights(path: Path) -> None:
    """Jobs take over a twentieth longer, on three short sequences of its own cluster."""
    model = load_harmony(path)
    config = replace(model.config.cluster, jobs=40)
    jobs = draw_jobs(config, 3, 5, Purpose.TEST)
    with_them = completion_of(Learned(model.network.policy, config), config, jobs, 0).mean()
    without_weights(model.network)
    without = completion_of(Learned(model.network.policy, config), config, jobs, 0).mean()
    assert without > 1.05 * with_them


def test_there_are_policies_to_check() -> None:
    assert len(DEEPRM) > 40
    assert len(HARMONY) == 12
