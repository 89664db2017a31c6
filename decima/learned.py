"""Learned policies by name: the shipped model, or a model file.

Here and not in `decima.policies`, so that heuristics run without loading torch.
"""

from __future__ import annotations

import numpy as np
import torch

from decima.agent.model import shared_model
from decima.agent.network import PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.policies import SAMPLED_SUFFIX, model_path
from spark_sim import Protocol
from traces.arrays import TraceArrays


def load(name: str, protocol: Protocol = Protocol.EXECUTORS) -> PolicyNetwork:
    """The network of the learned policy called `name`; nobody may change its weights.

    Raises:
        ModelError: the file is no model that this version can use.
    """
    # Matrices are small: further threads only get in each other's way.
    torch.set_num_threads(1)
    return shared_model(model_path(name, protocol)).network


def learned_policy(
    name: str, trace: TraceArrays, key: int, protocol: Protocol = Protocol.EXECUTORS
) -> LearnedPolicy:
    """The policy called `name` for one run.

    Args:
        name: "decima", or a file of `decima train`; with ":sampled" behind it, actions are drawn
            from its distribution instead of taking the likeliest.
        trace: the jobs of the run.
        key: seed of the draws.
        protocol: how the cluster offers executors: the package has models for two of them.

    Raises:
        ModelError: the file is no model that this version can use.
    """
    rng = np.random.default_rng(key) if name.endswith(SAMPLED_SUFFIX) else None
    return LearnedPolicy(load(name, protocol), trace, rng=rng, name=name)
