"""`Clusters`: many episodes in lockstep, the typed face of the compiled simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.study.lockstep import Lockstep
from decima.rl.study.streams import Purpose, seed_of
from harmony import sim_kernels
from harmony.config import Config
from harmony.measured import types_of
from harmony.tables import GIVEN, NONE, Bool, Float64, Int32, Jobs, K, Rules, State, Types

Predictor = Callable[["Clusters", Int32], Float64]
"""(n, R) epochs a minute of the jobs that run in (n,) episodes, in the order of `state.running`"""


class Steps(NamedTuple):
    """Results of one action of each of n episodes."""

    reward: Float64
    """(n,) sum over jobs of the shares of their epochs trained in the intervals that passed,
    discounted for each interval after the first"""
    passed: Int32
    """(n,) intervals that passed; 0 unless the action placed the last task of a job"""
    over: Bool
    """(n,) whether the episode is over"""


class Clusters(Lockstep):
    """E episodes, each on one of the sequences; what happens in one depends on no other.

    After `__init__`, and after each action, an episode is over or there is a job to place,
    `state.current`. Jobs are tried in each interval in the order of `state.priority`, then of
    their arrival; one that does not fit waits for the next interval, and those behind it are tried.

    Args:
        config: the cluster.
        jobs: S sequences.
        jobs_of: (E,) which sequence each episode plays; None plays each once.
        seed: of the noise, if there is any.
        discount: of rewards, for each interval that passes within one step.
        priority: (S, J) lower is tried first; None: the order of arrival.
        predictor: of speeds, in place of the configuration's; called before each interval.

    Raises StudyError if a job would find no room in an empty cluster.
    """

    def __init__(
        self,
        config: Config,
        jobs: Jobs,
        jobs_of: Int32 | None = None,
        *,
        seed: int = 0,
        discount: float = 1.0,
        priority: Float64 | None = None,
        predictor: Predictor | None = None,
    ) -> None:
        super().__init__(jobs, jobs_of)
        self.jobs: Jobs
        self.config = config
        self.types = types_of(config)
        self.rules = Rules(
            config.interval_min,
            config.max_intervals,
            config.speed_code if predictor is None else GIVEN,
            config.noise,
            discount,
            np.array(config.capacity, np.int32),
        )
        most, zeros = self.jobs.arrival_min.shape[1], self._zeros
        servers = [gpu.servers for gpu in config.gpu_table]
        gpus = np.arange(len(servers), dtype=np.int32)
        keys = seed_of(seed, Purpose.NOISE).generate_state(len(self), np.uint64)
        self.state: State = State(
            jobs_of=self._jobs_of,
            key=keys.astype(np.uint64),
            interval=zeros(),
            arrived=zeros(),
            finished=zeros(),
            gpu=np.tile(np.repeat(gpus, servers), (len(self), 1)),
            free=zeros(config.servers, K),
            tasks=zeros(config.servers),
            owner=zeros(config.servers),
            placed=zeros(most, config.servers, 2, kind=np.int8),
            left=zeros(most, 2),
            spread=zeros(most),
            running=zeros(config.most_running + 1),
            running_count=zeros(),
            speed=zeros(config.most_running + 1, kind=np.float64),
            waiting=zeros(most),
            waiting_count=zeros(),
            priority=zeros(most, kind=np.float64),
            refused=zeros(most),
            current=zeros(),
            plan=zeros(2 * config.max_workers),
            worth=zeros(config.most_running + 1, kind=np.float64),
            done=zeros(most, kind=np.float64),
            placed_in=zeros(most),
            end_min=zeros(most, kind=np.float64),
        )
        if priority is not None:
            self.state.priority[:] = priority[self._jobs_of]
        self._predictor = predictor
        reward, passed = np.zeros(len(self)), np.zeros(len(self), np.int32)
        misfit = sim_kernels.begin(*self.world, self._all, reward, passed)
        if misfit != NONE:
            raise StudyError(f"job {misfit} has more tasks than an empty cluster has room for")
        self._pass_intervals(self._all, reward, passed)

    @property
    def world(self) -> tuple[Rules, Types, Jobs, State]:
        """First arguments of the kernels."""
        return self.rules, self.types, self.jobs, self.state

    @property
    def speeds_are_predicted(self) -> bool:
        """Return whether speeds come from a model, which a kernel cannot ask."""
        return self._predictor is not None

    @property
    def over(self) -> Bool:
        """(E,) whether there is nothing to place any more."""
        return np.asarray(self.state.current == NONE)

    @property
    def is_time_up(self) -> Bool:
        """(E,) whether an episode has reached its longest duration."""
        return np.asarray(self.state.interval >= self.rules.max_intervals)

    def masks(self, rows: Int32) -> Bool:
        """(n, 2 M) which actions place a task such that the rest of the job finds room."""
        allowed = np.empty((len(rows), self.config.actions), np.bool_)
        sim_kernels.masks(self.types, self.jobs, self.state, rows, allowed)
        return allowed

    def step(self, rows: Int32, action: Int32) -> Steps:
        """Let the episodes `rows` act; each must be under way.

        Args:
            rows: (n,) numbers of episodes.
            action: (n,) `kind * M + m`: a worker or a parameter server on server m.

        Raises StudyError if an action is none, or is not allowed by `masks`.
        """
        if action.size and not 0 <= action.min() <= action.max() < self.config.actions:
            raise StudyError(f"an action is not in 0..{self.config.actions - 1}: {action}")
        allowed = np.empty(len(rows), np.bool_)
        sim_kernels.are_allowed(self.types, self.jobs, self.state, rows, action, allowed)
        if not allowed.all():
            wrong = int(action[~allowed][0])
            raise StudyError(f"action {wrong}: no such task is left, or there is no room for it")
        steps = Steps(
            np.empty(len(rows)), np.empty(len(rows), np.int32), np.empty(len(rows), np.bool_)
        )
        sim_kernels.act_all(*self.world, rows, action, *steps)
        if self._predictor is not None:
            self._pass_intervals(rows, steps.reward, steps.passed)
            steps.over[:] = self.over[rows]
        return steps

    def fork_until(self, rows: Int32, coming: int) -> Clusters:
        """Return a `fork` whose episodes end with the next `coming` jobs that arrive."""
        fork = self.fork(rows)
        jobs = Jobs._make(column[fork.state.jobs_of] for column in self.jobs)
        number = np.minimum(jobs.number, fork.state.arrived + coming)
        fork.jobs = jobs._replace(number=number.astype(np.int32))
        fork.state.jobs_of[:] = fork._all
        return fork

    def _pass_intervals(self, rows: Int32, reward: Float64, passed: Int32) -> None:
        """Let intervals pass at predicted speeds until each of (n,) episodes has a choice."""
        while self._predictor is not None:
            idle = self.over & ~self.complete & ~self.is_time_up
            at = np.nonzero(idle[rows])[0]
            if len(at) == 0:
                return
            self.state.speed[rows[at]] = self._predictor(self, rows[at])
            earned = np.empty(len(at))
            sim_kernels.pass_interval(*self.world, rows[at], earned)
            reward[at] += self.rules.discount ** passed[at] * earned
            passed[at] += 1

    def completion_min(self) -> Float64:
        """(E, J) minutes from arrival to completion, or to the cut; 0 where there is no job."""
        arrival = self.jobs.arrival_min[self.state.jobs_of]
        exists = np.arange(arrival.shape[1]) < self.jobs.number[self.state.jobs_of][:, None]
        return np.where(exists, self.state.end_min - arrival, 0.0)

    def mean_completion(self) -> Float64:
        """(E,) mean time from arrival to completion, in intervals."""
        number = self.jobs.number[self.state.jobs_of]
        return np.asarray(self.completion_min().sum(axis=1) / number / self.config.interval_min)
