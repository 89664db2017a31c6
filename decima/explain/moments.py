"""Playing a run of a learned policy up to the decision that is to be explained.

A policy plans all choices of a scheduling event at the first of them. So a choice further on is
explained by what was the case when its plan was made, not by what the choices before it have left.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from decima.agent import columns
from decima.agent.policy import Planned
from decima.evaluation.config import ConfigError, EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.learned import learned_policy
from spark_sim import PASS, Action, Observation, Status, Streams
from spark_sim.tables import ANY
from spark_sim.views import copied
from traces.numbers import MS_PER_S, Float64, Int64

SEARCHED = 500
"""decisions among which `busiest` looks"""


@dataclass(frozen=True, eq=False)
class Moment:
    """One decision of a run, before its action is taken."""

    number: int
    """of the decision in the run, from 1"""
    planned_at: int
    """number of the decision at which its plan was made: this one or one before it"""
    observation: Observation
    """when the plan was made; a copy"""
    action: Action
    """what the policy does"""
    given: int
    """executors that this gives away"""
    order: Int64
    """(O + 1,) the plan: stages by their index among those that may be chosen, O: the end; those
    behind it in no order
    """
    cluster_mean: Float64
    """(len(CLUSTER),) mean columns of the cluster over this plan and all before it"""

    @property
    def num_open(self) -> int:
        """O, stages that the plan could choose from"""
        return len(self.order) - 1


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is known when a plan is made."""

    number: int
    observation: Observation
    order: Int64
    cluster_mean: Float64


def moments(
    workload: Workload, config: EvaluationConfig, name: str, sequence: int
) -> Iterator[Moment]:
    """The decisions of the policy `name` on a sequence, as `decima evaluate` would play it.

    Raises:
        ValueError: (one line) the sequence, or the model, breaks a rule.
    """
    simulator = prepare(workload, config, sequence)
    key = int(Streams(config.seed, sequence).actions().integers(2**63))
    policy = learned_policy(name, workload.arrays, key)
    total = np.zeros(len(columns.CLUSTER))
    planned: Planned | None = None
    plan: _Plan | None = None
    plans = 0
    for number in itertools.count(1):
        if simulator.status is not Status.DECIDE:
            return
        observation = simulator.observation()
        action = policy.decide(observation)
        if policy.planned is not None and (plan is None or policy.planned is not planned):
            planned = policy.planned
            plans += 1
            total += planned.seen.graph.cluster_x[0].numpy()
            plan = _Plan(number, copied(observation), planned.plan.order, total / plans)
        if plan is None:
            raise RuntimeError("the policy has decided without a plan")
        yield Moment(
            number,
            plan.number,
            plan.observation,
            action,
            _given(observation, action),
            plan.order,
            plan.cluster_mean,
        )
        simulator.step(action)


def _given(seen: Observation, action: Action) -> int:
    """Executors that a stage gets by an action."""
    if action == PASS:
        return 0
    held = int(seen.jobs["held"][seen.stages["job"][action.stage]])
    return min(seen.demand(action.stage), action.limit - held, _on_offer(seen, action))


def _on_offer(seen: Observation, action: Action) -> int:
    """Executors of the action's class, or of all that can hold the stage's tasks."""
    if len(seen.classes) == 1:
        return seen.on_offer
    fits = int(seen.stages["fits"][action.stage])
    kinds = range(len(seen.classes)) if action.kind == ANY else (action.kind,)
    return sum(int(seen.classes["on_offer"][kind]) for kind in kinds if fits >> kind & 1)


def at_number(run: Iterable[Moment], number: int) -> Moment:
    """Decision `number` of the run, from 1.

    Raises:
        ConfigError: the run is over before.
    """
    last = 0
    for moment in run:
        last = moment.number
        if last == number:
            return moment
    raise ConfigError(f"there is no decision {number}: the run is over after {last} decisions")


def at_time(run: Iterable[Moment], time_s: float) -> Moment:
    """The first decision at `time_s` or later.

    Raises:
        ConfigError: the run is over before.
    """
    last_s = 0.0
    for moment in run:
        last_s = moment.observation.time_ms / MS_PER_S
        if last_s >= time_s:
            return moment
    raise ConfigError(f"no decision at {time_s:g} s or later: the last one is at {last_s:.1f} s")


def busiest(run: Iterable[Moment]) -> int:
    """Number of the decision with the most stages to choose from, among the first `SEARCHED`.

    Raises:
        ConfigError: the run has no decision.
    """
    best, most = 0, -1
    for moment in itertools.islice(run, SEARCHED):
        if moment.num_open > most:
            best, most = moment.number, moment.num_open
    if best == 0:
        raise ConfigError("the run has no decision: its time limit is before the first arrival")
    return best
