"""Learners of well-known libraries train on the environments, and then play to the end.

The libraries are imported by the tests: that takes seconds, also where these are not selected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from deeprm.env import DeepRmEnv
from spark_sim import Cluster
from spark_sim.env import ArrivalSettings

pytestmark = pytest.mark.slow


def spark_env(illegal: str) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(
        "spark_sim.env:decima/SparkScaled-v0",
        cluster=Cluster(num_executors=10),
        arrivals=ArrivalSettings(num_jobs=5, mean_gap_s=20.0),
        max_jobs=8,
        max_stages=64,
        illegal=illegal,
    )


def played(env: gymnasium.Env[Any, Any], act: Callable[[Any], Any]) -> dict[str, Any]:
    """The last info of an episode."""
    observation, info = env.reset(seed=1)
    over = False
    while not over:
        observation, _, terminated, truncated, info = env.step(act(observation))
        over = terminated or truncated
    return info


def weights(policy: torch.nn.Module) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(policy.parameters()).detach().clone()


@pytest.mark.parametrize("masked", [False, True])
def test_ppo_of_stable_baselines3_trains_on_spark(masked: bool) -> None:
    """With masks no action of training or play is illegal; without them an illegal one passes."""
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import PPO

    learner: Any = MaskablePPO if masked else PPO
    env = spark_env("raise" if masked else "pass")
    model = learner("MultiInputPolicy", env, seed=0, n_steps=128, batch_size=64, gamma=1.0)
    before = weights(model.policy)
    model.learn(512)
    assert model.num_timesteps >= 512
    assert not torch.equal(weights(model.policy), before)
    masks: Any = env.unwrapped
    info = played(
        env,
        lambda observation: model.predict(
            observation, **({"action_masks": masks.action_masks()} if masked else {})
        )[0],
    )
    assert info["jobs_arrived"] == 5
    assert (info["illegal_actions"] == 0) >= masked


def test_ppo_of_stable_baselines3_trains_on_deeprm() -> None:
    from stable_baselines3 import PPO

    env = DeepRmEnv(observation="compact")
    model = PPO("MlpPolicy", env, seed=0, n_steps=64, batch_size=32)
    before = weights(model.policy)
    model.learn(128)
    assert not torch.equal(weights(model.policy), before)
    info = played(env, lambda observation: np.int64(model.predict(observation)[0]))
    assert info["slowdown"] >= 1.0
