"""Clusters and job sets for the tests of `deeprm`."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.tables import Int32

TINY = Config(
    capacity=4,
    horizon=6,
    slots=2,
    backlog=3,
    cluster_columns=4,
    arrival_steps=6,
    arrival_trials=1,
    max_steps=40,
    load=0.5,
    small_duration=(1, 2),
    large_duration=(3, 4),
    dominant_demand=(2, 4),
    other_demand=(1, 2),
)
"""two resources of 4 units, two slots, six steps ahead"""

_capacities = st.lists(st.sampled_from([4, 8, 12]), min_size=1, max_size=3).map(tuple)
tiny_configs = st.builds(
    lambda capacities, **rest: Config(
        resources=len(capacities), capacity_by_resource=capacities, **rest
    ),
    _capacities,
    machines=st.integers(1, 3),
    unused_steps=st.sampled_from([0, 1]),
    end=st.sampled_from(["all_done", "no_new_job"]),
    horizon=st.integers(5, 8),
    slots=st.integers(1, 4),
    backlog=st.integers(1, 5),
    cluster_columns=st.just(4),
    shows_last_arrival=st.booleans(),
    load=st.floats(0.2, 1.0),
    arrival_steps=st.integers(1, 8),
    arrival_trials=st.just(16),
    max_steps=st.integers(20, 40),
    small_share=st.floats(0.0, 1.0),
    small_duration=st.just((1, 2)),
    large_duration=st.just((2, 4)),
    dominant_demand=st.just((2, 4)),
    other_demand=st.just((1, 2)),
)


FIRST = np.zeros(1, np.int32)


def act(episodes: Episodes, *actions: int) -> None:
    """Actions of the first episode, until it is over."""
    for action in actions:
        if not episodes.over[0]:
            episodes.step(FIRST, np.array([action], np.int32))


def random_actions(episodes: Episodes, seed: int) -> Int32:
    """(n,) actions of the episodes under way, legal or not."""
    rows = episodes.under_way()
    rng = np.random.default_rng(seed)
    return rng.integers(episodes.config.actions, size=len(rows), dtype=np.int32)
