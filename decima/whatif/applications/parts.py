"""Mutable parts of a simulated cluster: executors, pools, stages and jobs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from decima.whatif.applications.workload import ApplicationsWorkload
from decima.whatif.replay import pools
from spark_sim.tables import NONE
from traces import Stage


@dataclass(eq=False, slots=True)
class Executor:
    """An executor of an application, from its request on."""

    application: int
    busy: int = 0
    """tasks that it runs"""
    idle_ms: float = 0.0
    """when its last task ended, or when it came"""
    is_leaving: bool = False
    is_gone: bool = False


@dataclass(eq=False, slots=True)
class Pool:
    """A pool and the tasks that it runs."""

    name: str
    settings: pools.Pool
    running: int = 0

    @property
    def claim(self) -> tuple[int, float, str]:
        """Sort key: pools below their minShare first, then the fewest tasks for the weight."""
        if self.running < self.settings.min_share:
            return 0, self.running / self.settings.min_share, self.name
        return 1, self.running / self.settings.weight, self.name


def no_pool() -> Pool:
    """Return the pool of a stage that is not submitted."""
    return Pool("", pools.Pool())


@dataclass(eq=False, slots=True)
class StageRun:
    """A stage; its tasks take `task_ms` in the order of their launch."""

    job: JobRun
    row: int
    """over all jobs"""
    number: str
    """Spark's, which its FAIR scheduler compares as text"""
    spark_job: int
    """Spark job that it is part of, counted inside its job"""
    task_ms: list[float]
    wait_ms: float
    """that the driver needs before it"""
    parents_left: int
    children: tuple[int, ...]
    """places in the job"""
    launched: int = 0
    finished: int = 0
    is_runnable: bool = False
    pool: Pool = field(default_factory=no_pool)
    turn: int = 0
    """rank of its Spark job by submission"""

    @property
    def num_tasks(self) -> int:
        """Number of tasks."""
        return len(self.task_ms)


@dataclass(eq=False, slots=True)
class JobRun:
    """A job; its times change once it arrives."""

    row: int
    application: int
    leader: int
    """row of the job whose end its client waits for, or NONE"""
    arrival_ms: float
    think_ms: float
    """from the end of that job to its submission"""
    after_ms: float
    """from its last task to its end"""
    pool: str
    stages: list[StageRun] = field(default_factory=list)
    followers: list[int] = field(default_factory=list)
    stages_left: int = 0


def jobs_of(workload: ApplicationsWorkload, rng: np.random.Generator) -> list[JobRun]:
    """Return all jobs before their arrival; each task takes one recorded time of its stage."""
    found: list[JobRun] = []
    own = workload.jobs
    arrival_ms = np.empty(len(own.arrivals))
    arrival_ms[own.arrivals.job] = own.arrivals.arrival_ms
    first = 0
    for row, traced in enumerate(own.trace.jobs):
        spark = own.spark_jobs[row]
        job = JobRun(
            row,
            workload.application[row],
            workload.leader[row],
            float(arrival_ms[row]),
            float(own.think_ms[row]),
            float(own.after_ms[row]),
            spark.pool,
        )
        for place, stage in enumerate(traced.stages):
            job.stages.append(
                StageRun(
                    job,
                    first + place,
                    str(int(spark.number[place])),
                    int(spark.of_stage[place]),
                    _task_ms(stage, rng),
                    float(own.wait_ms[first + place]),
                    len(stage.parents),
                    traced.children[place],
                )
            )
        job.stages_left = len(job.stages)
        first += len(job.stages)
        found.append(job)
    for job in found:
        if job.leader != NONE:
            found[job.leader].followers.append(job.row)
    return found


def _task_ms(stage: Stage, rng: np.random.Generator) -> list[float]:
    """(tasks,) recorded times in an order that is drawn, each once where there are as many."""
    recorded = np.concatenate(stage.durations[0].waves).astype(np.float64)
    times: list[float] = np.resize(rng.permutation(recorded), stage.num_tasks).tolist()
    return times
