"""Parts of a simulated cluster: executors, jobs, and Spark's order of the tasks in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from decima.whatif.applications.workload import ApplicationsWorkload
from decima.whatif.replay import pools
from decima.whatif.replay.recording import FAIR, FIFO
from spark_sim.tables import NONE


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


class SparkOrder:
    """Order of the stages of one application; `replay.spark_order` is its compiled form."""

    def __init__(self, policy: str, settings: pools.Pools) -> None:
        """Args:
        policy: one of `recording.ORDERS`.
        settings: of the pools that jobs name.
        """
        self._policy = policy
        self._settings = settings
        self._pools: dict[str, Pool] = {}
        self._turns: dict[tuple[int, int], int] = {}

    def submit(self, stage: StageRun) -> None:
        """Note that a stage may run: its Spark job is submitted, if it was not."""
        stage.turn = self._turns.setdefault((stage.job.row, stage.spark_job), len(self._turns))
        name = stage.job.pool
        if self._policy == FIFO:
            stage.pool = self._pools.setdefault("", no_pool())
        elif self._policy == FAIR:
            # Each job has a pool of its own, with the defaults.
            key = f"{name} {stage.job.row}"
            stage.pool = self._pools.setdefault(key, Pool(name, pools.Pool()))
        else:
            stage.pool = self._pools.setdefault(name, Pool(name, self._settings.named(name)))

    def next_stage(self, runnable: Sequence[StageRun]) -> StageRun:
        """The stage, of those with tasks to start, that gets a free slot."""
        return runnable[0] if len(runnable) == 1 else min(runnable, key=_key)


def _key(stage: StageRun) -> tuple[tuple[int, float, str], int, int, str]:
    """Sort key: by pool, then in a FAIR pool by running tasks, else by the Spark job."""
    if stage.pool.settings.fair:
        return stage.pool.claim, stage.launched - stage.finished, 0, stage.number
    return stage.pool.claim, stage.turn, stage.row, stage.number


def jobs_of(workload: ApplicationsWorkload, rng: np.random.Generator) -> list[JobRun]:
    """Return all jobs before their arrival; each task takes one recorded time of its stage."""
    jobs: list[JobRun] = []
    recorded = workload.jobs
    arrival_ms = np.empty(len(recorded.arrivals))
    arrival_ms[recorded.arrivals.job] = recorded.arrivals.arrival_ms
    first = 0
    for row, traced in enumerate(recorded.trace.jobs):
        spark = recorded.spark_jobs[row]
        job = JobRun(
            row,
            workload.application[row],
            workload.leader[row],
            float(arrival_ms[row]),
            float(recorded.think_ms[row]),
            float(recorded.after_ms[row]),
            spark.pool,
        )
        for place, stage in enumerate(traced.stages):
            # Recorded times in an order that is drawn, each once where there are as many.
            times_ms = np.concatenate(stage.durations[0].waves).astype(np.float64)
            task_ms = np.resize(rng.permutation(times_ms), stage.num_tasks)
            job.stages.append(
                StageRun(
                    job,
                    first + place,
                    str(int(spark.number[place])),
                    int(spark.of_stage[place]),
                    task_ms.tolist(),
                    float(recorded.wait_ms[first + place]),
                    len(stage.parents),
                    traced.children[place],
                )
            )
        job.stages_left = len(job.stages)
        first += len(job.stages)
        jobs.append(job)
    for job in jobs:
        if job.leader != NONE:
            jobs[job.leader].followers.append(job.row)
    return jobs
