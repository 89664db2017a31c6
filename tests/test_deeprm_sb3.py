"""Somebody else's agent learns on DeepRM's environment, as it is.

Slow (about five minutes) and in need of `sb3-contrib`, which the project does not install:
`pytest -m slow tests/test_deeprm_sb3.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from decima.rl.study.streams import Purpose
from deeprm.env import DeepRmEnv
from deeprm.evaluation import evaluate
from deeprm.jobs import draw_jobs, stack
from deeprm.schedulers import SJF, RandomChoice

EPISODES, FIRST_SEED = 100, 10_000
STEPS = 40_000


def slowdown(model: Any) -> float:
    """Mean over unseen job sets, the agent drawing its legal actions."""
    env, found = DeepRmEnv(observation="compact"), []
    for number in range(EPISODES):
        seen, info = env.reset(seed=FIRST_SEED + number)
        over = False
        while not over:
            masks = env.action_masks()
            action, _ = model.predict(seen, action_masks=masks, deterministic=False)
            seen, _, terminated, truncated, info = env.step(np.int64(action))
            over = terminated or truncated
        found.append(info["slowdown"])
    return float(np.mean(found))


@pytest.mark.slow
def test_masked_ppo_learns_to_schedule() -> None:
    """`sb3_contrib.MaskablePPO` begins like random choice, and closes a third of the way to SJF."""
    maskable = pytest.importorskip("sb3_contrib").MaskablePPO
    env = DeepRmEnv(observation="compact")
    model = maskable(
        "MlpPolicy", env, seed=0, n_steps=2048, batch_size=256, gamma=0.9, learning_rate=1e-3
    )
    config = env.config
    sets = [
        draw_jobs(config, 1, FIRST_SEED + number, Purpose.EPISODES) for number in range(EPISODES)
    ]
    random, sjf = (
        evaluate(one, config, stack(sets), 0).slowdown.mean() for one in (RandomChoice(), SJF)
    )
    before = slowdown(model)
    assert before == pytest.approx(random, rel=0.1)

    model.learn(STEPS)

    after = slowdown(model)
    print(f"random {random:.2f}, SJF {sjf:.2f}, MaskablePPO {before:.2f} to {after:.2f}")  # noqa: T201 (the figure that the documents quote)
    assert after < sjf + 2 / 3 * (random - sjf)
