"""`moments`: the decisions of a learned policy on one sequence, as an evaluation plays it.

A policy plans all choices of a scheduling event at the first of them. A later choice is therefore
explained by what the policy observed when it made the plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from decima.agent import columns
from decima.agent.policy import Planned
from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.learned import learned_policy
from spark_sim import PASS, Action, Observation, Status, Streams
from spark_sim.tables import ANY
from spark_sim.views import copied
from traces.numbers import MS_PER_S, Float64, Int64

SEARCHED = 500  # decisions that `busiest` searches


@dataclass(frozen=True, eq=False)
class Moment:
    """One decision of a run, before its action is taken."""

    number: int
    """number in the run, from 1"""
    planned_at: int
    """number of the decision at which its plan was made: this one or an earlier one"""
    observation: Observation
    """copy of what the policy observed when it made the plan"""
    action: Action
    """the policy's action"""
    given: int
    """executors that the action gives away"""
    order: Int64
    """(O + 1,) the plan: each stage by its index among those that may be chosen, O for the end of
    the round; what comes after the end is not sorted
    """
    cluster_mean: Float64
    """(len(CLUSTER),) mean columns of the cluster over this plan and all earlier ones"""

    @property
    def num_open(self) -> int:
        """O, the number of stages that the plan could choose from."""
        return len(self.order) - 1


def moments(
    workload: Workload, config: EvaluationConfig, name: str, sequence: int
) -> Iterator[Moment]:
    """Yield the decisions of the policy `name` on a sequence."""
    simulator = prepare(workload, config, sequence)
    key = int(Streams(config.seed, sequence).actions().integers(2**63))
    policy = learned_policy(name, workload.arrays, key)
    total = np.zeros(len(columns.CLUSTER))
    planned: Planned | None = None
    plan: Moment | None = None
    plans = 0
    for number in itertools.count(1):
        if simulator.status is not Status.DECIDE:
            return
        observation = simulator.observation()
        action = policy.decide(observation)
        if policy.planned is not None and policy.planned is not planned:
            planned = policy.planned
            plans += 1
            total += planned.scored.choices.cluster_x[0]
            order, mean = planned.plan.order, total / plans
            plan = Moment(number, number, copied(observation), action, 0, order, mean)
        if plan is None:
            raise RuntimeError("the policy has decided without a plan")
        yield replace(plan, number=number, action=action, given=_given(observation, action))
        simulator.step(action)


def _given(observation: Observation, action: Action) -> int:
    """Return the number of executors that an action gives away."""
    if action == PASS:
        return 0
    held = int(observation.jobs["held"][observation.stages["job"][action.stage]])
    on_offer = observation.on_offer
    if len(observation.classes) > 1:
        kinds = [
            kind for kind in observation.legal_kinds(action.stage) if action.kind in (ANY, kind)
        ]
        on_offer = int(observation.classes["on_offer"][kinds].sum())
    return min(observation.demand(action.stage), action.limit - held, on_offer)


def at_number(run: Iterable[Moment], number: int) -> Moment:
    """Return decision `number` of the run, from 1; ConfigError if the run ends earlier."""
    last = 0
    for moment in run:
        last = moment.number
        if last == number:
            return moment
    raise ConfigError(f"there is no decision {number}: the run is over after {last} decisions")


def at_time(run: Iterable[Moment], time_s: float) -> Moment:
    """Return the first decision at `time_s` or later; ConfigError if the run ends earlier."""
    last_s = 0.0
    for moment in run:
        last_s = moment.observation.time_ms / MS_PER_S
        if last_s >= time_s:
            return moment
    raise ConfigError(f"no decision at {time_s:g} s or later: the last one is at {last_s:.1f} s")


def busiest(run: Iterable[Moment]) -> int:
    """Return the number of the decision with the most stages, among the first `SEARCHED`."""
    best, most = 0, -1
    for moment in itertools.islice(run, SEARCHED):
        if moment.num_open > most:
            best, most = moment.number, moment.num_open
    if best == 0:
        raise ConfigError("the run has no decision: its time limit is before the first arrival")
    return best
