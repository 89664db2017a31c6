"""DeepRM's environment under another project's learner, which this project does not install."""

from __future__ import annotations

import numpy as np
import pytest

from deeprm.env import DeepRmEnv


def test_ppo_of_stable_baselines3_trains_and_plays() -> None:
    """A few steps of training; then its actions are accepted to the end of an episode."""
    ppo = pytest.importorskip("stable_baselines3").PPO
    env = DeepRmEnv(observation="compact")
    model = ppo("MlpPolicy", env, seed=0, n_steps=64, batch_size=32)
    model.learn(128)
    assert model.num_timesteps >= 128
    observation, info = env.reset(seed=1)
    over = False
    while not over:
        action, _ = model.predict(observation)
        observation, _, terminated, truncated, info = env.step(np.int64(action))
        over = terminated or truncated
    assert info["slowdown"] >= 1.0
