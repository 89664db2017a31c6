"""Figures of one finished (or truncated) run.

Every job that arrived counts, the unfinished ones with their age when the run ended. A job due
after the time limit counts nowhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_sim.tables import State, Table
from traces.numbers import MS_PER_S, Float64, Int32


@dataclass(frozen=True)
class ClassUse:
    """Use of the executors of one class."""

    memory_mb: float
    """memory of each executor"""
    count: int
    """executors"""
    busy_s: float
    """running tasks"""
    idle_memory_share: float
    """fragmentation: memory that their tasks did not need, over all memory, while they ran"""


@dataclass(frozen=True, eq=False)
class RunMetrics:
    """Metrics of one run on N executors. A jobs arrived, which are the first A of all K."""

    jct_s: Float64
    """(A,) job completion time; for a job that was not complete, its age when the run ended"""
    job: Int32
    """(A,) each job's row in the trace"""
    weight: Float64
    """(A,) what each job counts for in a weighted average"""
    deadline_s: Float64
    """(A,) JCT beyond which each job is late; infinite where it has no deadline"""
    slowdown: Float64
    """(A,) `jct_s` divided by the job's lower bound alone on the cluster; for an unfinished job,
    its age"""
    unfinished: int
    """jobs that arrived and were not complete at the time limit"""
    not_arrived: int
    """jobs that were to arrive after the time limit, K - A"""
    makespan_s: float
    """time from 0 to the last completion, or to the time limit"""
    busy_executor_s: float
    """running tasks"""
    moving_executor_s: float
    """starting in another job"""
    idle_executor_s: float
    """idle time: busy + moving + idle = N x makespan"""
    first_executor_s: float
    """part of busy: tasks that were an executor's first in their job, those under way at a time
    limit with all they would have taken"""
    inflation_executor_s: float
    """part of busy: excess of mean durations at the used levels over those at the lowest"""
    mean_jobs_in_system: float
    """time average (Little: arrival rate x mean time in system)"""
    task_events: int
    """tasks finished"""
    decisions: int
    """actions taken by the policy, passes included"""
    forced: int
    """actions that the simulator took because the policy left everything idle for ever"""
    classes: tuple[ClassUse, ...] = ()
    """executors by class, small ones first; empty where there is but one"""

    @property
    def num_jobs(self) -> int:
        """Number of jobs (K), with those that never arrived."""
        return len(self.jct_s) + self.not_arrived

    @property
    def avg_jct_s(self) -> float:
        """Average JCT; NaN where no job arrived, as for all averages over jobs."""
        return float(self.jct_s.mean()) if len(self.jct_s) else math.nan

    def jct_percentile_s(self, percent: float) -> float:
        """The JCT that `percent` of the jobs do not exceed (linear interpolation)."""
        return float(np.percentile(self.jct_s, percent)) if len(self.jct_s) else math.nan

    @property
    def avg_slowdown(self) -> float:
        return float(self.slowdown.mean()) if len(self.slowdown) else math.nan

    @property
    def utilisation(self) -> float:
        """Share of the executor time that ran tasks."""
        total = self.busy_executor_s + self.moving_executor_s + self.idle_executor_s
        return self.busy_executor_s / total if total > 0 else 0.0

    @property
    def fairness(self) -> float:
        """Jain's index of the slowdowns: 1 if all jobs are slowed alike, 1 / A at worst."""
        return jain_index(self.slowdown) if len(self.slowdown) else math.nan


def jain_index(values: Float64) -> float:
    r"""Jain's fairness index.

    .. math:: (\\sum_i x_i)^2 / (K \\sum_i x_i^2)

    Args:
        values: (K,) not negative, K >= 1.

    Returns:
        between 1 / K (one has all) and 1 (all have the same, be it 0).
    """
    squares = float(np.square(values).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares > 0 else 1.0


def measure(state: State) -> RunMetrics:
    """Measure the run in `state`, up to its present time."""
    clock = state.clock[0]
    end_ms = float(clock["time_ms"])
    # Those that wait for their place among `Cluster.max_jobs` have arrived, too.
    waiting = state.queue[clock["next_arrival"] : clock["num_queued"]]
    num_arrived = int(clock["next_arrival"] + (state.jobs["arrival_ms"][waiting] <= end_ms).sum())
    jobs = state.jobs[:num_arrived]
    complete = ~np.isnan(jobs["completion_ms"])
    jct_s = (np.where(complete, jobs["completion_ms"], end_ms) - jobs["arrival_ms"]) / MS_PER_S
    executor_s = int(clock["num_executors"]) * end_ms / MS_PER_S
    busy_s, moving_s = float(clock["busy_ms"]) / MS_PER_S, float(clock["moving_ms"]) / MS_PER_S
    return RunMetrics(
        jct_s=jct_s,
        job=jobs["template"].copy(),
        weight=state.trace.weight[jobs["template"]],
        deadline_s=state.trace.deadline_ms[jobs["template"]] / MS_PER_S,
        slowdown=jct_s / least_jct_s(state)[:num_arrived],
        unfinished=int((~complete).sum()),
        not_arrived=len(state.jobs) - num_arrived,
        makespan_s=end_ms / MS_PER_S,
        busy_executor_s=busy_s,
        moving_executor_s=moving_s,
        idle_executor_s=executor_s - busy_s - moving_s,
        first_executor_s=float(clock["first_ms"]) / MS_PER_S,
        inflation_executor_s=float(clock["inflation_ms"]) / MS_PER_S,
        mean_jobs_in_system=float(clock["job_time_ms"]) / end_ms if end_ms > 0 else 0.0,
        task_events=int(clock["task_events"]),
        decisions=int(clock["decisions"]),
        forced=int(clock["forced"]),
        classes=_use_of(state.classes) if len(state.classes) > 1 else (),
    )


def _use_of(classes: Table) -> tuple[ClassUse, ...]:
    held_mb_ms = classes["memory_mb"] * classes["busy_ms"]
    idle = np.divide(classes["idle_mb_ms"], held_mb_ms, where=held_mb_ms > 0, out=0 * held_mb_ms)
    return tuple(
        ClassUse(
            memory_mb=float(row["memory_mb"]),
            count=int(row["count"]),
            busy_s=float(row["busy_ms"]) / MS_PER_S,
            idle_memory_share=float(share),
        )
        for row, share in zip(classes, idle, strict=True)
    )


def least_jct_s(state: State) -> Float64:
    """(K,) lower bound of each JCT: critical path, or work over all executors if that is longer.

    Both from mean durations, so a lucky job may do better.
    """
    jobs, stages = state.jobs, state.stages
    path_ms = np.maximum.reduceat(stages["critical_path_ms"], jobs["first_stage"])
    spread_ms = jobs["work_ms"] / int(state.clock[0]["num_executors"])
    longest: Float64 = np.maximum(path_ms, spread_ms) / MS_PER_S
    return longest


def jobs_in_system(arrival: Float64, completion: Float64) -> tuple[Float64, NDArray[np.int64]]:
    """The number of jobs in the system over time, as steps.

    Args:
        arrival: (A,) of the jobs that arrived, in any unit.
        completion: (A,) in the same unit; NaN for the unfinished.

    Returns:
        (M,) times, increasing, and (M,) the number from that time to the next.
    """
    ends = completion[~np.isnan(completion)]
    times = np.concatenate([arrival, ends])
    change = np.concatenate([np.ones(len(arrival), int), -np.ones(len(ends), int)])
    steps, place = np.unique(times, return_inverse=True)
    count = np.bincount(place, weights=change).cumsum().astype(np.int64)
    return steps, count
