"""Everything that a training does, once and tiny, so that its compiled code is there beforehand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from decima.agent.network import PolicyNetwork
from decima.rl.optimiser import flat_parameters
from decima.training.config import TrainConfig, UpdateConfig, ValidationConfig
from decima.training.shard import Request, Shard

_TRACE = "random-dag"
"""generated, so nothing is read; machine code depends on the types of a trace, not on its jobs"""


def rehearse(config: TrainConfig) -> None:
    """Compile what `config` needs and this machine has not compiled, and load it into this process.

    Compiling takes about a minute of one core, once for a machine; loading takes two seconds.
    """
    tiny = _tiny(config)
    shard = Shard(tiny, 0)
    weights = flat_parameters(PolicyNetwork(tiny.network))
    for iteration, imitate in enumerate((True, False)):
        found = shard.collect(iteration, weights, 0.0, np.ones(1))
        total = max(float(found.decisions), 1.0)
        shard.gradient(weights, Request(0, total, 0.0, 1.0, 0.0, imitate, critic_only=False))
    shard.validate(weights)


def _tiny(config: TrainConfig) -> TrainConfig:
    """As `config`, with one job where there would be many."""
    return replace(
        config,
        initial_model=None,
        workload=replace(
            config.workload, trace=_TRACE, executors=2, interarrival_s=(), batch_jobs=(1,)
        ),
        episodes=replace(config.episodes, sequences=1, rollouts=2, shards=1),
        update=UpdateConfig(minibatches=1),
        imitation=replace(config.imitation, iterations=1),
        validation=ValidationConfig(sequences=1),
    )
