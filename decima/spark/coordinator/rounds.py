"""A division of the executors: a floor of one for each application, then what the policy gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from decima.policy import Policy
from decima.spark.coordinator.applications import Application
from decima.spark.coordinator.tables import Share
from spark_sim import IllegalActionError
from spark_sim.kernels import executors
from spark_sim.kernels.executors import clear_open, set_open
from spark_sim.observation import PASS, Observation, observe
from spark_sim.simulator import explain_illegal
from spark_sim.tables import ANY, DECIDE, ILLEGAL, State

_TINY = 1e-9
"""less than any share of an executor"""


class Room(NamedTuple):
    """Room for J applications with work to hold executors together."""

    slots: int
    """executors, without those that others keep"""
    caps: Sequence[Mapping[str, int]]
    """(J,) caps by the group that shares each, without what others in it keep"""


def shares_with_floors(
    active: Sequence[Application],
    shares: Sequence[Share],
    room: Room,
    wait_ms: float,
    now_ms: float,
) -> list[Share]:
    """(J,) the shares, with an executor free for each application that waits for its first.

    If the cluster or a cap is full, the largest holder under it gives one. If all hold just
    one, an application that has waited beyond `wait_ms` replaces the one served longest.
    """
    shares = list(shares)
    # An application with work keeps one that is idle now.
    used = sum(
        max(share.busy + share.starting, min(1, share.idle, application.waiting_tasks))
        for share, application in zip(shares, active, strict=True)
    )
    num_free = room.slots - used
    waiting = [
        job
        for job, application in enumerate(active)
        if application.granted == 0 and application.waiting_tasks > 0
    ]
    totals = [share.total for share in shares]
    for job in sorted(waiting, key=lambda job: active[job].waited_ms(now_ms), reverse=True):
        groups = [
            ([member for member, caps in enumerate(room.caps) if group in caps], cap)
            for group, cap in room.caps[job].items()
        ]
        full = (members for members, cap in groups if sum(totals[m] for m in members) >= cap)
        holders = next(full, None)
        if holders is None and num_free > 0:
            num_free -= 1
            totals[job] += 1
            continue
        victim = _victim(holders or range(len(active)), active, shares, job, wait_ms, now_ms)
        if victim is not None:
            share = shares[victim]
            if share.idle > 0:
                share = share._replace(idle=share.idle - 1)
            elif share.starting > 0:
                share = share._replace(starting=share.starting - 1, ahead=share.ahead - 1)
            else:
                share = share._replace(busy=share.busy - 1, ahead=max(0, share.ahead - 1))
            shares[victim] = share
            totals[victim] -= 1
            totals[job] += 1
    return shares


def _victim(
    holders: Sequence[int],
    active: Sequence[Application],
    shares: Sequence[Share],
    waiting: int,
    wait_ms: float,
    now_ms: float,
) -> int | None:
    """The application, of `holders`, that gives an executor to one that waits."""
    rich = [job for job in holders if shares[job].total > 1]
    if rich:
        return max(rich, key=lambda job: shares[job].total / active[job].weight)
    if active[waiting].waited_ms(now_ms) < wait_ms:
        return None
    served = [
        job
        for job in holders
        if shares[job].total == 1 and now_ms - active[job].serves_since_ms >= wait_ms
    ]
    return min(served, key=lambda job: active[job].serves_since_ms, default=None)


class ClusterRound:
    """One division of the executors on offer, by the rules of the `executors` protocol.

    An executor moves only if the application has work for it that takes longer than the move.
    """

    def __init__(
        self,
        state: State,
        applications: Sequence[Application],
        caps: Sequence[Mapping[str, int]],
        moving_delay_ms: float,
    ) -> None:
        """Begin the round that is open in `state`, of J applications with caps as in `Room`."""
        self._state = state
        self._applications = applications
        self._caps = caps
        self._delay_ms = max(moving_delay_ms, 1.0)
        self._is_over = state.clock[0]["on_offer"] == 0
        weights = [application.weight for application in applications]
        self._mean_weight = sum(weights) / len(weights)
        self.chosen: list[int] = []
        """rows of the stages that were given executors, first come first served"""
        for job, row in enumerate(state.jobs):
            if row["held"] >= self._most(job):
                self._close(job)

    @property
    def is_open(self) -> bool:
        return not self._is_over and bool(self._state.clock[0]["open_stages"] > 0)

    def observation(self) -> Observation:
        return observe(self._state)

    def serve_floor(self, job: int) -> None:
        """Give an application its first executor, if one is on offer."""
        clock, stages, row = self._state.clock[0], self._state.stages, self._state.jobs[job]
        open_stages = [stage for stage in self._stages_of(job) if stages[stage]["open"]]
        if not self.is_open or not open_stages or row["held"] > 0 or self._most(job) < 1:
            return
        stage = max(open_stages, key=lambda stage: stages[stage]["critical_path_ms"])
        self._assign(stage, 1)
        # The policy may choose this stage again, and all that is left on offer.
        if not stages[stage]["open"] and stages[stage]["covered"] < stages[stage]["num_tasks"]:
            set_open(self._state, stage)
        clock["num_chosen"] = 0
        clock["on_offer"] = clock["unattached"] + clock["idle_in_jobs"]
        self._state.classes["on_offer"] = clock["on_offer"]
        self._is_over = clock["on_offer"] == 0

    def fill(self, policy: Policy) -> None:
        """Let the policy decide until it passes or nothing is left; its errors are raised."""
        while self.is_open:
            observation = self.observation()
            action = policy.decide(observation)
            if action == PASS:
                return
            stages, jobs = self._state.stages, self._state.jobs
            stage, limit = int(action.stage), int(action.limit)
            if not 0 <= stage < len(stages) or not stages[stage]["open"]:
                raise IllegalActionError(explain_illegal(observation, action))
            job = int(stages[stage]["job"])
            held = int(jobs[job]["held"])
            if not held < limit <= observation.num_executors:
                raise IllegalActionError(explain_illegal(observation, action))
            weighted = math.ceil(limit * self._applications[job].weight / self._mean_weight - _TINY)
            bounded = min(weighted, self._most(job), observation.num_executors)
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

    def _most(self, job: int) -> int:
        """Return how many executors the application may hold, also under the caps of its groups."""
        jobs, application = self._state.jobs, self._applications[job]
        inside = int(jobs[job]["held"] + jobs[job]["local"])
        room = len(self._state.executors)
        for group, cap in self._caps[job].items():
            members = [member for member, groups in enumerate(self._caps) if group in groups]
            room = min(room, cap - int((jobs["held"] + jobs["local"])[members].sum()))
        work_ms = float(jobs[job]["remaining_ms"]) * application.weight
        paying = max(1, inside, int(work_ms / self._delay_ms))
        return min(paying, application.registration.most, inside + max(0, room))

    def _close(self, job: int) -> None:
        """Exclude the stages of an application until the round ends."""
        for stage in self._stages_of(job):
            clear_open(self._state, stage)

    def _stages_of(self, job: int) -> range:
        row = self._state.jobs[job]
        return range(row["first_stage"], row["first_stage"] + row["num_stages"])

    def holds(self) -> list[int]:
        """(J,) executors that each application holds now, those included that stay idle in it."""
        jobs = self._state.jobs
        return [int(row["held"] + row["local"]) for row in jobs]

    def unattached(self) -> int:
        """Return the number of executors that are in no application with work."""
        return int(self._state.clock[0]["unattached"])
