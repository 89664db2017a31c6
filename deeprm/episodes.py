"""`Episodes`: many episodes in lockstep, the typed face of the compiled simulator."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.study.lockstep import Lockstep
from deeprm import sim_kernels
from deeprm.config import Config
from deeprm.objectives import Objective, common_multiple
from deeprm.tables import COSTS, NONE, VOID, Bool, Float64, Int32, Int64, Jobs, Rules, State


class Steps(NamedTuple):
    """Results of one action of each of n episodes."""

    cost: Int64
    """(n, COSTS) of the time that passed; 0 if none did"""
    over: Bool
    """(n,) whether the episode is over"""


class Episodes(Lockstep):
    """E episodes, each on one of the job sets; what happens in one depends on no other.

    After `__init__`, and after each action, an episode is over or some job waits in a slot: while
    none does, time passes by itself, as nothing that could be chosen would matter.

    Args:
        config: the cluster.
        jobs: S job sets.
        jobs_of: (E,) which set each episode plays; None plays each once.
    """

    def __init__(self, config: Config, jobs: Jobs, jobs_of: Int32 | None = None) -> None:
        super().__init__(jobs, jobs_of)
        self.jobs: Jobs
        self.config = config
        capacity, whole = np.array(config.capacities, np.int64), Objective.UTILISATION.unit(config)
        self.rules = Rules(
            capacity,
            whole // capacity,
            whole,
            config.reach,
            common_multiple(config),
            config.arrival_steps,
            config.last_step,
        )
        most, zeros = jobs.arrival.shape[1], self._zeros
        self.state: State = State(
            jobs_of=self._jobs_of,
            time=zeros(),
            arrived=zeros(),
            entered=zeros(),
            finished=zeros(),
            last_arrival=zeros(),
            slot=zeros(config.slots) + NONE,
            start=zeros(most) + NONE,
            machine=zeros(most),
            used=zeros(config.horizon, config.pools),
            ending=zeros(config.horizon),
            ending_weight=zeros(config.horizon, kind=np.int64),
            weight=zeros(kind=np.int64),
            cost=zeros(COSTS, kind=np.int64),
        )
        sim_kernels.begin(self.rules, self.jobs, self.state, self._all)

    @property
    def is_time_up(self) -> Bool:
        """(E,) whether an episode has reached its longest duration."""
        return np.asarray(self.state.time >= self.rules.last_step)

    def step(self, rows: Int32, action: Int32) -> Steps:
        """Let the (n,) episodes `rows`, all under way, take (n,) actions: 0 is void, m is slot m.

        Raises StudyError for an action that is none.
        """
        if action.size and not 0 <= action.min() <= action.max() <= self.config.slots:
            raise StudyError(f"an action is not in 0..{self.config.slots}: {action}")
        steps = Steps(np.empty((len(rows), COSTS), np.int64), np.empty(len(rows), np.bool_))
        sim_kernels.act_all(self.rules, self.jobs, self.state, rows, action, *steps)
        return steps

    def delays(self, rows: Int32) -> Int32:
        """(n, M) steps until the job in each slot could start.

        NONE for an empty slot, and for a job that cannot end within the horizon.
        """
        wait = np.empty((len(rows), self.config.slots), np.int32)
        sim_kernels.delays(self.rules, self.jobs, self.state, rows, wait)
        return wait

    def masks(self, rows: Int32) -> Bool:
        """(n, M + 1) which actions are void or place a job; the others let time pass, too."""
        allowed = np.ones((len(rows), self.config.actions), np.bool_)
        allowed[:, VOID + 1 :] = self.delays(rows) != NONE
        return allowed

    def figures(self) -> dict[str, Float64]:
        """(E,) figure of each objective by name: means over jobs, or while jobs arrive."""
        config, cost = self.config, self.state.cost
        total = {objective: np.abs(objective.reward(config, cost)) for objective in Objective}
        jobs = self.jobs.number[self.state.jobs_of]
        return {
            "slowdown": total[Objective.SLOWDOWN] / jobs,
            "completion": total[Objective.COMPLETION] / jobs,
            "utilisation": total[Objective.UTILISATION] / config.arrival_steps / config.pools,
            "makespan": total[Objective.MAKESPAN],
        }

    def backlog(self, rows: Int32) -> Int32:
        """(n,) jobs that wait beyond the slots, however many."""
        return np.asarray(self.state.arrived[rows] - self.state.entered[rows])
