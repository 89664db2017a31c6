"""Clusters and sequences for the tests of `harmony`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from torch import Tensor

from harmony.clusters import Clusters
from harmony.config import Config
from harmony.models import kind_of
from harmony.session import AnyConfig
from harmony.tables import Int32

TINY = Config(servers=2, max_workers=2, jobs=6, jobs_per_20_min=2.0, max_intervals=200)
"""two servers of 2 GPUs, 8 cores, 48 GB and 50 Gbit/s"""
ONLY = np.zeros(1, np.int32)

tiny_configs = st.builds(
    Config,
    servers=st.integers(2, 4),
    gpus=st.integers(1, 2),
    max_workers=st.integers(1, 2),
    jobs=st.integers(1, 12),
    jobs_per_20_min=st.floats(0.3, 4.0),
    arrivals=st.sampled_from(["uniform", "poisson", "trace"]),
    all_reduce_share=st.floats(0.0, 1.0),
    exclusive_share=st.sampled_from([0.0, 0.3]),
    speed=st.sampled_from(["measured", "analytic"]),
    several=st.sampled_from(["worst", "product"]),
    noise=st.sampled_from([0.0, 0.2]),
    max_intervals=st.just(3_000),
)


def act(clusters: Clusters, *actions: int) -> float:
    """Actions of the first episode; gives the rewards, summed."""
    steps = [clusters.step(ONLY, np.array([action], np.int32)) for action in actions]
    return float(sum(step.reward[0] for step in steps))


def random_actions(clusters: Clusters, rows: Int32, rng: np.random.Generator) -> Int32:
    """(n,) allowed actions."""
    allowed = clusters.masks(rows)
    return np.array([rng.choice(np.nonzero(row)[0]) for row in allowed], np.int32)


def save_model(path: Path, config: AnyConfig, weights: dict[str, Tensor], card: Any) -> None:
    """Write the weights of a policy or of a reward model."""
    kind_of(config).save(path, config, weights, card)
