"""Learned policies by name: the shipped model, or a model file.

Here and not in `decima.policies`, so that heuristics run without loading the agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from decima.agent.model import shared_model
from decima.agent.policy import LearnedPolicy
from decima.agent.rollout import Lanes, Played, play_out
from decima.agent.scales import Scales
from decima.agent.weights import NetworkWeights
from decima.policy_names import SAMPLED_SUFFIX, model_path
from spark_sim import Cluster
from spark_sim.vector import Run
from traces.arrays import TraceArrays

Networks = Mapping[str, NetworkWeights]
"""weights of learned policies by name, for processes that may not see their files"""


def load(name: str, networks: Networks | None = None) -> NetworkWeights:
    """Return the weights of the learned policy called `name`.

    They are shared: do not change them. Those in `networks` are not read from their files.
    """
    if networks is not None and name in networks:
        return networks[name]
    return shared_model(model_path(name)).weights


def play_in_lockstep(
    name: str,
    arrays: TraceArrays,
    cluster: Cluster,
    runs: Sequence[Run],
    keys: Sequence[int],
    networks: Networks | None = None,
) -> Played:
    """Play several runs side by side under the policy `name`, ten times as fast as one by one.

    A key of each run seeds its draws.
    """
    drawn = np.array(keys, np.uint64) if name.endswith(SAMPLED_SUFFIX) else None
    lanes = Lanes(arrays, cluster, runs, drawn)
    return play_out(load(name, networks), Scales.of(arrays), lanes)


def learned_policy(
    name: str, trace: TraceArrays, key: int, networks: Networks | None = None
) -> LearnedPolicy:
    """The policy called `name` for one run: "decima", or a file of `decima train`.

    With ":sampled" after it, actions are drawn instead of taking the likeliest; `key` seeds the
    draws.
    """
    drawn = key if name.endswith(SAMPLED_SUFFIX) else None
    return LearnedPolicy(load(name, networks), trace, key=drawn, name=name)
