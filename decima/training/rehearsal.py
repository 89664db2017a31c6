"""Everything that a training does, once and tiny, so that its compiled code is there beforehand."""

from __future__ import annotations

from dataclasses import replace

from decima.training.config import (
    EpisodesConfig,
    TrainConfig,
    UpdateConfig,
    ValidationConfig,
    WorkloadConfig,
)
from decima.training.shard import Request, Shard, initial_network
from rl.optimiser import flat_parameters

_TRACE = "random-dag"
"""generated, so nothing is read; machine code depends on the types of a trace, not on its jobs"""


def rehearse(config: TrainConfig) -> None:
    """Compile what `config` needs and this machine has not compiled, and load it into this process.

    Compiling takes about a minute of one core, once for a machine; loading takes two seconds.
    """
    tiny = _tiny(config)
    shard = Shard(tiny, 0)
    weights = flat_parameters(initial_network(tiny))
    found = shard.collect(0, weights, 0.0)
    shard.gradient(weights, Request(0, max(float(found.plans), 1.0), 0.0, 1.0, 0.0))
    shard.validate(weights)


def _tiny(config: TrainConfig) -> TrainConfig:
    """As `config`, with one job where there would be many."""
    return replace(
        config,
        initial_model=None,
        workload=WorkloadConfig(trace=_TRACE, executors=2, interarrival_s=(), batch_jobs=(1,)),
        episodes=EpisodesConfig(settings=1, sequences=1, rollouts=2, shards=1),
        credit=replace(config.credit, states=100, plans=2),
        update=UpdateConfig(minibatches=1),
        validation=ValidationConfig(sequences=1),
    )
