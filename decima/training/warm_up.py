"""Tiny run of all steps of a training, so that its code is compiled beforehand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from decima.agent.network import PolicyNetwork
from decima.objectives import AVG_JCT
from decima.rl.optimiser import flat_parameters
from decima.rl.parallel.pool import SentOnce
from decima.training.config import (
    EpisodesConfig,
    StepConfig,
    TrainConfig,
    ValidationConfig,
    WorkloadConfig,
)
from decima.training.evolve import Perturbing, play_perturbed
from decima.training.gradients import Differentiating, Request, gradient
from decima.training.play import Playing, TrainingContext, Validating, Validation, play, validate

Step = TypeVar("Step", bound=StepConfig)

_TRACE = "random-dag"
"""a generated trace, so nothing is read; machine code depends on types, not on jobs"""


def warm_up(config: TrainConfig) -> None:
    """Compile what `config` needs, minutes of one core once for a machine, and load it here."""

    def once(step: Step, **changes: Any) -> Step:
        return replace(step, iterations=min(1, step.iterations), sequences=1, **changes)

    tiny = replace(
        config,
        initial_model=None,
        objective=AVG_JCT,  # a function of one's own may need more than one job
        workload=WorkloadConfig(trace=_TRACE, executors=2, interarrival_s=(), batch_jobs=(1,)),
        episodes=EpisodesConfig(settings=1, shards=1),
        imitate=once(config.imitate, minibatches=1),
        reinforce=once(config.reinforce, rollouts=2, minibatches=1),
        evolve=once(config.evolve, pairs=2),
        validation=ValidationConfig(sequences=1),
    )
    context = SentOnce(TrainingContext(tiny))
    weights = flat_parameters(PolicyNetwork(tiny.network))
    for iteration in range(tiny.iterations):
        if tiny.step_at(iteration)[0] is tiny.evolve:
            flat = weights.numpy()
            play_perturbed(Perturbing(context, flat, flat, iteration), [0])
            continue
        rollouts = play(Playing(context, weights, iteration, 0.0), range(1))
        group = [] if rollouts is None else [rollouts]
        total = float(sum(len(rollouts.advantage) for rollouts in group))
        request = Request(0, 1, max(total, 1.0), 0.0)
        gradient(Differentiating(context, SentOnce([group]), iteration, weights, request), 0)
    validate(Validating(context, weights), Validation(None, range(1)))


def warm_up_task(config: TrainConfig, _number: int) -> None:
    """Warm up as a task of each process."""
    warm_up(config)
