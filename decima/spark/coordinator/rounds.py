"""`ClusterRound`: the executors on offer, given to applications under their bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from decima.policy import Policy
from spark_sim import Action, IllegalActionError
from spark_sim.kernels import executors
from spark_sim.kernels.executors import clear_open, set_open
from spark_sim.observation import PASS, Observation, observe
from spark_sim.simulator import explain_illegal
from spark_sim.tables import ANY, DECIDE, ILLEGAL, State

_TINY = 1e-9
"""less than any share of an executor"""


@dataclass(frozen=True)
class Bounds:
    """Bounds on the executors of J applications."""

    most: Sequence[int]
    """(J,) executors that their own settings allow"""
    groups: Sequence[Mapping[str, int]]
    """(J,) caps by the group that shares each"""
    weights: Sequence[float]
    """(J,)"""


class ClusterRound:
    """One division of the executors on offer, by the rules of the `executors` protocol.

    An executor moves only if the application has work for it that takes longer than the move.
    """

    def __init__(self, state: State, bounds: Bounds, moving_delay_ms: float) -> None:
        """Begin the round that is open in `state` (`decima.spark.coordinator.tables`)."""
        self._state = state
        self._bounds = bounds
        self._delay_ms = max(moving_delay_ms, 1.0)
        self._is_over = state.clock[0]["on_offer"] == 0
        self._mean_weight = sum(bounds.weights) / len(bounds.weights)
        self.chosen: list[int] = []
        """rows of the stages that were given executors, first come first served"""
        for job, row in enumerate(state.jobs):
            if row["held"] >= self._most(job):
                self._close(job)

    @property
    def is_open(self) -> bool:
        """True while an executor is on offer and a stage may be chosen."""
        return not self._is_over and bool(self._state.clock[0]["open_stages"] > 0)

    def observation(self) -> Observation:
        """Return the observation of the due decision."""
        return observe(self._state)

    def serve_floor(self, job: int) -> None:
        """Give an application its first executor, if one is on offer."""
        row = self._state.jobs[job]
        rows = range(row["first_stage"], row["first_stage"] + row["num_stages"])
        stages = self._state.stages
        is_open = [stage for stage in rows if stages[stage]["open"]]
        if not self.is_open or not is_open or row["held"] > 0 or self._most(job) < 1:
            return
        stage = max(is_open, key=lambda stage: stages[stage]["critical_path_ms"])
        self._assign(stage, 1)
        self._reopen(stage)

    def fill(self, policy: Policy) -> None:
        """Let the policy decide until it passes or nothing is left to give.

        Raises:
            IllegalActionError: the action breaks a rule.
            Exception: any other error of the policy.
        """
        while self.is_open:
            action = policy.decide(self.observation())
            if action == PASS:
                return
            self._follow(action)

    def _follow(self, action: Action) -> None:
        seen = self.observation()
        stages, jobs = self._state.stages, self._state.jobs
        stage, limit = int(action.stage), int(action.limit)
        if not 0 <= stage < len(stages) or not stages[stage]["open"]:
            raise IllegalActionError(explain_illegal(seen, action))
        job = int(stages[stage]["job"])
        held = int(jobs[job]["held"])
        if not held < limit <= seen.num_executors:
            raise IllegalActionError(explain_illegal(seen, action))
        share = self._bounds.weights[job] / self._mean_weight
        weighted = math.ceil(limit * share - _TINY)
        bounded = min(weighted, self._most(job), seen.num_executors)
        if bounded > held:
            self._assign(stage, bounded)
        if bounded < limit and jobs[job]["held"] >= bounded:
            self._close(job)  # the policy would choose it again

    def _assign(self, stage: int, limit: int) -> None:
        status = executors.assign(self._state, stage, limit, ANY)
        if status == ILLEGAL:
            raise IllegalActionError(f"stage {stage}: limit {limit} is not possible")
        self.chosen.append(stage)
        self._is_over = status != DECIDE

    def _reopen(self, stage: int) -> None:
        """Let the policy choose a stage that has been served once, and what is left on offer."""
        clock, row = self._state.clock[0], self._state.stages[stage]
        if not row["open"] and row["covered"] < row["num_tasks"]:
            set_open(self._state, stage)
        clock["num_chosen"] = 0
        clock["on_offer"] = clock["unattached"] + clock["idle_in_jobs"]
        self._state.classes["on_offer"] = clock["on_offer"]
        self._is_over = clock["on_offer"] == 0

    def _most(self, job: int) -> int:
        """Return how many executors the application may hold."""
        row = self._state.jobs[job]
        inside = int(row["held"] + row["local"])
        work_ms = float(row["remaining_ms"]) * self._bounds.weights[job]
        paying = max(1, inside, int(work_ms / self._delay_ms))
        return min(paying, self._bounds.most[job], inside + self._room(job))

    def _room(self, job: int) -> int:
        """Return how many executors may join the application under the caps of its groups."""
        jobs = self._state.jobs
        room = len(self._state.executors)
        for group, cap in self._bounds.groups[job].items():
            members = [other for other, groups in enumerate(self._bounds.groups) if group in groups]
            held = sum(int(jobs[one]["held"] + jobs[one]["local"]) for one in members)
            room = min(room, cap - held)
        return max(0, room)

    def _close(self, job: int) -> None:
        """Exclude the stages of an application until the round ends."""
        row = self._state.jobs[job]
        for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
            clear_open(self._state, stage)

    def holds(self) -> list[int]:
        """(J,) executors that each application holds now, those included that stay idle in it."""
        jobs = self._state.jobs
        return [int(row["held"] + row["local"]) for row in jobs]

    def unattached(self) -> int:
        """Return the number of executors that are in no application with work."""
        return int(self._state.clock[0]["unattached"])
