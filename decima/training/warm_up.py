"""Tiny run of all steps of a training, so that its code is compiled beforehand."""

from __future__ import annotations

from dataclasses import replace

from decima.agent.network import PolicyNetwork
from decima.rl.optimiser import flat_parameters
from decima.rl.parallel.pool import SentOnce
from decima.training.config import EpisodesConfig, TrainConfig, ValidationConfig, WorkloadConfig
from decima.training.gradients import Differentiating, Request, gradient
from decima.training.rollouts import (
    Playing,
    TrainingContext,
    Validating,
    Validation,
    play,
    validate,
)

_TRACE = "random-dag"
"""a generated trace, so nothing is read; machine code depends on types, not on jobs"""


def warm_up(config: TrainConfig) -> None:
    """Compile what `config` needs, minutes of one core once for a machine, and load it here."""
    context = SentOnce(TrainingContext(_tiny(config)))
    weights = flat_parameters(PolicyNetwork(context.value.config.network))
    for iteration in range(context.value.config.iterations):
        found = play(Playing(context, weights, iteration, 0.0), range(1))
        rollouts = [] if found is None else [found]
        total = float(sum(len(one.advantage) for one in rollouts))
        request = Request(0, max(total, 1.0), 0.0)
        gradient(Differentiating(context, SentOnce([rollouts]), iteration, weights, request), 0)
    validate(Validating(context, weights), Validation(None, range(1)))


def warm_up_task(config: TrainConfig, _number: int) -> None:
    """Warm up as a task of each process."""
    warm_up(config)


def _tiny(config: TrainConfig) -> TrainConfig:
    """Return `config` with one job where there would be many."""
    return replace(
        config,
        initial_model=None,
        workload=WorkloadConfig(trace=_TRACE, executors=2, interarrival_s=(), batch_jobs=(1,)),
        episodes=EpisodesConfig(settings=1, shards=1),
        imitate=replace(config.imitate, iterations=1, sequences=1, minibatches=1),
        reinforce=replace(config.reinforce, iterations=1, sequences=1, rollouts=2, minibatches=1),
        validation=ValidationConfig(sequences=1),
    )
