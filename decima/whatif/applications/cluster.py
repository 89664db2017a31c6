"""`ClusterRun`: applications on one cluster, event by event.

A cluster manager starts executors for an application up to its target, in the order in which the
applications started. An executor comes some time after its request. Inside an application, free
slots go to tasks by Spark's own scheduler, whatever divides the executors.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from decima.whatif.applications.workload import ApplicationsWorkload, ApplicationWork
from decima.whatif.replay.pools import Pool, Pools
from decima.whatif.replay.recording import FAIR, FIFO
from spark_sim import SimulationError
from spark_sim.tables import NONE
from traces.numbers import MS_PER_S, Float64

Action = Callable[[Any], None]
_TASK, _EXECUTOR, _TIMER, _ARRIVAL = range(4)
"""order of events at one instant, as in `spark_sim`"""


class Outcome(NamedTuple):
    """Figures of one run."""

    jct_s: Float64
    """(J,) from submission to end"""
    held_s: float
    """slot seconds that applications held, from an executor's request on"""
    starts: int
    """executors that were started"""


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
class PoolRun:
    """A pool and the tasks that it runs."""

    name: str
    settings: Pool
    running: int = 0

    @property
    def claim(self) -> tuple[int, float, str]:
        """Sort key: pools below their minShare first, then the fewest tasks for the weight."""
        if self.running < self.settings.min_share:
            return 0, self.running / self.settings.min_share, self.name
        return 1, self.running / self.settings.weight, self.name


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
    pool: PoolRun = field(default_factory=lambda: PoolRun("", Pool()))
    turn: int = 0
    """rank of its Spark job by submission"""

    @property
    def num_tasks(self) -> int:
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

    def __init__(self, policy: str, settings: Pools) -> None:
        """`policy`: one of `recording.ORDERS`; `settings`: of the pools that jobs name."""
        self._policy = policy
        self._settings = settings
        self._pools: dict[str, PoolRun] = {}
        self._turns: dict[tuple[int, int], int] = {}

    def submit(self, stage: StageRun) -> None:
        """Note that a stage may run: its Spark job is submitted, if it was not."""
        stage.turn = self._turns.setdefault((stage.job.row, stage.spark_job), len(self._turns))
        key = name = stage.job.pool
        settings = self._settings.named(name)
        if self._policy == FIFO:
            key, name, settings = "", "", Pool()
        elif self._policy == FAIR:
            # Each job has a pool of its own, with the defaults.
            key, settings = f"{name} {stage.job.row}", Pool()
        stage.pool = self._pools.setdefault(key, PoolRun(name, settings))

    def next_stage(self, runnable: Sequence[StageRun]) -> StageRun:
        """The stage, of those with tasks to start, that gets a free slot.

        By pool; then in a FAIR pool the one with the fewest running tasks, else by Spark job.
        """

        def key(stage: StageRun) -> tuple[tuple[int, float, str], int, int, str]:
            if stage.pool.settings.fair:
                return stage.pool.claim, stage.launched - stage.finished, 0, stage.number
            return stage.pool.claim, stage.turn, stage.row, stage.number

        return runnable[0] if len(runnable) == 1 else min(runnable, key=key)


class Way:
    """A way to divide the executors among applications; this one leaves them as they are."""

    def __init__(self, workload: ApplicationsWorkload) -> None:
        self.slots_each = workload.slots_each
        """of an executor"""
        self.delay_ms = workload.delay_ms
        """from a request to an executor"""
        self.room: float = workload.executors
        """executors that all applications may hold together"""

    def begin(self, run: ClusterRun, application: ApplicationRun) -> None:
        """Take in an application that has started."""

    def end(self, run: ClusterRun, application: ApplicationRun) -> None:
        """Note that an application has ended; the cluster manager gives its executors to others."""

    def divide(self, run: ClusterRun) -> None:
        """Set targets, after all that happens at this instant."""


class ApplicationRun:
    """State of one application."""

    def __init__(self, place: int, work: ApplicationWork) -> None:
        self.place = place
        self.work = work
        self.order = SparkOrder(work.policy, work.pools)
        self.jobs: list[JobRun] = []
        """unfinished ones that have arrived"""
        self.jobs_left = 0
        self.runnable: list[StageRun] = []
        """stages that have tasks to start"""
        self.target = 0
        self.staying: list[Executor] = []
        self.leaving: list[Executor] = []
        """those that finish their tasks first"""
        self.coming: list[Executor] = []
        self.free: deque[Executor] = deque()
        """an entry for each free slot, those that have been free for longest first"""
        self.pending = 0
        """tasks of runnable stages that wait"""
        self.running = 0

    @property
    def held(self) -> int:
        """Executors that it has or awaits, without those that leave."""
        return len(self.staying) + len(self.coming)


class ClusterRun:
    """One simulation."""

    def __init__(self, workload: ApplicationsWorkload, way: Way, seed: int, draw: int) -> None:
        """`draw`: number of the repetition: which task takes which of the recorded times."""
        self.workload = workload
        self.way = way
        self.now_ms = min(application.begin_ms for application in workload.applications)
        self.active: list[ApplicationRun] = []
        """applications that have started and not ended, in the order of their starts"""
        self.is_news = False
        """whether something happened at this instant that a coordinator plans for"""
        self._queue: list[tuple[float, int, int, Action, Any]] = []
        self._numbers = itertools.count()
        self._woken_ms = -np.inf
        self._used = 0
        self._held_ms = 0.0
        self._starts = 0
        self._jct_s = np.zeros(len(workload.application))
        self._jobs = jobs_of(workload, np.random.default_rng((seed, draw)))
        self._applications = [
            ApplicationRun(place, work) for place, work in enumerate(workload.applications)
        ]
        self._left = len(self._applications)
        for job in self._jobs:
            self._applications[job.application].jobs_left += 1
            if job.leader == NONE:
                self._at(job.arrival_ms, _ARRIVAL, self._arrive, job)
        for application in self._applications:
            self._at(application.work.begin_ms, _TIMER, self._begin, application)

    def play(self) -> Outcome:
        """Run to the end of the last application; SimulationError if none comes."""
        while self._left > 0:
            if not self._queue:
                raise SimulationError("applications wait for executors that never come")
            before_ms, self.now_ms = self.now_ms, self._queue[0][0]
            self._held_ms += self._used * (self.now_ms - before_ms)
            while self._queue and self._queue[0][0] == self.now_ms:
                *_, action, subject = heapq.heappop(self._queue)
                action(subject)
            self.way.divide(self)
            self.is_news = False
            for application in self.active:
                while application.held < application.target and self._used < self.way.room:
                    executor = Executor(application.place)
                    application.coming.append(executor)
                    self._used += 1
                    self._starts += 1
                    self._at(self.now_ms + self.way.delay_ms, _EXECUTOR, self._come, executor)
        held_s = self._held_ms * self.way.slots_each / MS_PER_S
        return Outcome(self._jct_s, held_s, self._starts)

    def wake(self, time_ms: float) -> None:
        """Call `Way.divide` at that time, too."""
        if self.now_ms < time_ms < np.inf and not self.now_ms < self._woken_ms <= time_ms:
            self._woken_ms = time_ms
            self._at(time_ms, _TIMER, lambda _: None, None)

    # --- executors ------------------------------------------------------------------------------

    def set_target(self, application: ApplicationRun, target: int) -> None:
        """Let an application hold so many executors; those beyond it leave.

        First those that have not come, then idle ones. Those that leave are wanted again first.
        """
        application.target = target
        while application.coming and application.held > target:
            application.coming.pop().is_gone = True
            self._used -= 1
        while application.leaving and application.held < target:
            executor = application.leaving.pop()
            executor.is_leaving = False
            application.staying.append(executor)
            application.free.extend([executor] * (self.way.slots_each - executor.busy))
            self._start_tasks(application)
        while application.held > target:
            self.release(application, min(application.staying, key=lambda executor: executor.busy))

    def release(self, application: ApplicationRun, executor: Executor) -> None:
        """Let an executor go, once its tasks have ended."""
        application.staying.remove(executor)
        application.free = deque(free for free in application.free if free is not executor)
        if executor.busy == 0:
            executor.is_gone = True
            self._used -= 1
        else:
            executor.is_leaving = True
            application.leaving.append(executor)

    def _come(self, executor: Executor) -> None:
        if executor.is_gone:
            return
        application = self._applications[executor.application]
        application.coming.remove(executor)
        application.staying.append(executor)
        application.free.extend([executor] * self.way.slots_each)
        executor.idle_ms = self.now_ms
        self.is_news = True
        self._start_tasks(application)

    # --- applications and jobs --------------------------------------------------------------------

    def _begin(self, application: ApplicationRun) -> None:
        self.active.append(application)
        self.active.sort(key=lambda active: active.place)
        self.way.begin(self, application)
        self.is_news = True

    def _end(self, application: ApplicationRun) -> None:
        self.active.remove(application)
        self._left -= 1
        self.set_target(application, 0)
        self.way.end(self, application)
        self.is_news = True

    def _arrive(self, job: JobRun) -> None:
        application = self._applications[job.application]
        job.arrival_ms = self.now_ms
        application.jobs.append(job)
        self.is_news = True
        for stage in job.stages:
            if stage.parents_left == 0:
                self._after(stage.wait_ms, self._make_runnable, stage)

    def _make_runnable(self, stage: StageRun) -> None:
        application = self._applications[stage.job.application]
        application.order.submit(stage)
        application.runnable.append(stage)
        application.pending += stage.num_tasks
        stage.is_runnable = True
        self.is_news = True
        self._start_tasks(application)

    def _start_tasks(self, application: ApplicationRun) -> None:
        while application.runnable and application.free:
            executor = application.free.popleft()
            stage = application.order.next_stage(application.runnable)
            task_ms = stage.task_ms[stage.launched]
            stage.launched += 1
            stage.pool.running += 1
            executor.busy += 1
            application.pending -= 1
            application.running += 1
            if stage.launched == stage.num_tasks:
                application.runnable.remove(stage)
                self.is_news = True
            self._at(self.now_ms + task_ms, _TASK, self._end_task, (stage, executor))

    def _end_task(self, task: tuple[StageRun, Executor]) -> None:
        stage, executor = task
        application = self._applications[executor.application]
        stage.finished += 1
        stage.pool.running -= 1
        application.running -= 1
        executor.busy -= 1
        if executor.busy == 0:
            executor.idle_ms = self.now_ms
        if not executor.is_leaving:
            application.free.append(executor)
        elif executor.busy == 0:
            application.leaving.remove(executor)
            executor.is_gone = True
            self._used -= 1
        if stage.finished == stage.num_tasks:
            job = stage.job
            self.is_news = True
            for child in stage.children:
                below = job.stages[child]
                below.parents_left -= 1
                if below.parents_left == 0:
                    self._after(below.wait_ms, self._make_runnable, below)
            job.stages_left -= 1
            if job.stages_left == 0:
                application.jobs.remove(job)
                self._after(job.after_ms, self._end_job, job)
        self._start_tasks(application)

    def _end_job(self, job: JobRun) -> None:
        application = self._applications[job.application]
        self._jct_s[job.row] = (self.now_ms - job.arrival_ms) / MS_PER_S
        application.jobs_left -= 1
        for row in job.followers:
            follower = self._jobs[row]
            self._at(self.now_ms + follower.think_ms, _ARRIVAL, self._arrive, follower)
        if application.jobs_left == 0:
            self._at(self.now_ms + application.work.tail_ms, _TIMER, self._end, application)

    def _after(self, delay_ms: float, action: Action, subject: Any) -> None:
        if delay_ms > 0:
            self._at(self.now_ms + delay_ms, _TIMER, action, subject)
        else:
            action(subject)

    def _at(self, time_ms: float, order: int, action: Action, subject: Any) -> None:
        heapq.heappush(self._queue, (time_ms, order, next(self._numbers), action, subject))


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
