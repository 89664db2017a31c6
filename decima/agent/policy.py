"""`LearnedPolicy`: a network as a policy, in the simulator and on live clusters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decima.agent import plans
from decima.agent.plans import Plans
from decima.agent.scales import Scales
from decima.agent.scorer import Scored, Scorer
from decima.agent.weights import Network
from spark_sim.kernels.dispatch import Preferences
from spark_sim.observation import PASS, Action, Observation, ObservationBatch, for_kernels
from spark_sim.tables import ANY, NONE, Table
from traces.arrays import TraceArrays


class Planned(NamedTuple):
    """A plan, and what it was made of."""

    scored: Scored
    plan: Plans  # one


class LearnedPolicy:
    """Policy that plans a round in one pass of the network, then returns the choices one by one.

    It plans again if a choice opened stages that the plan lacks, or a class of executors ran out.
    """

    def __init__(
        self,
        network: Network,
        trace: TraceArrays,
        *,
        scales: Scales | None = None,
        key: int | None = None,
        name: str = "decima",
    ) -> None:
        """Build it; `scales` are by default those of `trace`, and `key` draws plans, else the
        likeliest.
        """
        self.name = name
        self._network = network
        self._scorer = Scorer(network, trace, Scales.of(trace) if scales is None else scales)
        self._key = None if key is None else np.array([key], np.uint64)
        self._count = np.zeros(1, np.uint64)
        self._jobs: Table | None = None
        self._round = -1
        self._plan = _NOTHING
        self.planned: Planned | None = None
        """the current plan, None before the first; it is overwritten by the next one"""
        self._next = 0
        self._last = NONE
        """stage of the last choice, if that named a class"""

    def decide(self, observation: Observation) -> Action:
        """The next action (`decima.policy.Policy`)."""
        is_new = observation.round_number != self._round or not self._knows(observation.jobs)
        if is_new or self._is_outdated(observation):
            self.plan(observation)
        action = self._next_choice(observation)
        if action is None:
            self.plan(observation)
            action = self._next_choice(observation)
        if action is None:
            raise RuntimeError("a plan begins with a class that is not on offer")
        self._last = NONE if action.kind == ANY else action.stage
        return action

    def plan(self, observation: Observation) -> None:
        """Plan the open round, replacing any plan."""
        batch = self._batch(observation)
        key = None if self._key is None else plans.key_of(self._key, self._count)
        self._count += np.uint64(1)
        scored, plan = self._scorer.plan(batch, np.zeros(1, np.int64), key)
        self._plan = plans.preferences(plan, scored.choices)
        self.planned = Planned(scored, plan)
        self._round, self._next, self._last = observation.round_number, 0, NONE

    def score(self, observation: Observation) -> Scored:
        """Return the scores of all choices of the open round."""
        return self._scorer.score(self._batch(observation))

    def _batch(self, observation: Observation) -> ObservationBatch:
        """Return the observation as a batch of one that the scorer has room for."""
        if not self._knows(observation.jobs):  # another run, or tables that have grown
            self._scorer.forget()
            self._jobs, self._round = observation.jobs, -1
        observation = for_kernels(observation)
        self._scorer.make_room(len(observation.jobs), len(observation.stages))
        return observation.as_batch()

    def _knows(self, jobs: Table) -> bool:
        """Return whether the table is the last one, or another view of it."""
        last = self._jobs
        if last is None or last is jobs:
            return last is not None
        return len(last) == len(jobs) and last.ctypes.data == jobs.ctypes.data

    def _next_choice(self, observation: Observation) -> Action | None:
        """Return the plan's next action; None if its class has no free executor."""
        while self._next < len(self._plan.stage):
            stage, limit, kind = (int(part[self._next]) for part in self._plan[1:])
            if stage == NONE:
                return PASS
            self._next += 1
            row = observation.stages[stage]
            if row["open"] == 1 and observation.jobs[row["job"]]["held"] < limit:
                if kind != ANY and observation.classes[kind]["on_offer"] == 0:
                    return None
                return Action(stage, limit, kind)
        return PASS

    def _is_outdated(self, observation: Observation) -> bool:
        """Return whether the plan lacks a stage, or the last choice's class ran out."""
        is_open = observation.stages["open"]
        if self._last != NONE and is_open[self._last] == 1:
            return True
        named = self._plan.stage[self._plan.stage != NONE]
        num_open = int(observation.jobs["open_stages"][observation.active].sum())
        return num_open > int(is_open[named].sum())


_EMPTY = np.empty(0, np.int64)
_NOTHING = Preferences(np.zeros(2, np.int64), _EMPTY, _EMPTY, _EMPTY)
