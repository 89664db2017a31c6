"""`SoftControl`: the plan's limits as shares of Spark's own FAIR pools, without extra Java classes.

For a Spark on which the exact classes do not compile. A pool's minimum share is a target, not a
cap: slots that no other job wants are still given away, and the order inside a pool stays Spark's.
Each job needs a pool of its own (``spark.scheduler.pool``) and the session the FAIR scheduler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from decima.spark.claims import Claim
from decima.spark.errors import AttachError
from decima.spark.planning import Plan
from decima.spark.reports import JobDone, LiveEvent, SessionReport, TaskSet, job_of
from traces.spark_log.events import (
    CALL_SITE,
    EXECUTION_ID,
    JOB_DESCRIPTION,
    JOB_GROUP,
    OWN_JOB,
    ROOT_EXECUTION_ID,
    JobStart,
    StageInfo,
)

POOL = "spark.scheduler.pool"
_READ = (OWN_JOB, ROOT_EXECUTION_ID, EXECUTION_ID, JOB_GROUP, JOB_DESCRIPTION, CALL_SITE)
_POLL_S = 0.1


class SoftControl:
    """Polls Spark's scheduler and sets its pools; as `decima.spark.jvm.Jvm` to its caller."""

    def __init__(self, context: Any) -> None:
        """Raises:
        AttachError: the session does not use the FAIR scheduler.
        """
        mode = context._jsc.sc().getSchedulingMode().toString()
        if mode != "FAIR":
            raise AttachError(
                f"mode 'soft' needs spark.scheduler.mode=FAIR and a pool for each job, not {mode}"
            )
        self._context = context
        self._claim = Claim(context)
        self._scala = context._jsc.sc()
        self._scheduler = self._scala.taskScheduler()
        kind = context._jvm.java.lang.Class.forName("org.apache.spark.scheduler.Pool")
        self._fields = {}
        for name in ("minShare", "weight"):
            field = kind.getDeclaredField(name)
            field.setAccessible(True)
            self._fields[name] = field
        self._pool_of: dict[str, str] = {}
        self._original: dict[str, tuple[int, int]] = {}
        self._jobs: set[int] = set()
        self._is_attached = False
        self._lock = threading.Lock()
        self._number = 0
        self._plans = 0

    def attach(self) -> None:
        """Do nothing: a session is changed only by its first plan.

        Raises:
            AttachError: another scheduler is attached.
        """
        self._claim.take()
        self._is_attached = True

    def detach(self) -> None:
        """Give the pools their own shares back."""
        with self._lock:
            self._is_attached = False
            for name, (share, weight) in self._original.items():
                self._set(name, share, weight)
            self._original.clear()
        self._claim.release()

    def wait(self, timeout_ms: int) -> SessionReport:
        """The state of things after a short while."""
        time.sleep(min(timeout_ms / 1000, _POLL_S))
        events = tuple(self._changed_jobs())
        sets = tuple(self._task_sets())
        profile = self._scala.resourceProfileManager().defaultResourceProfile()
        slots = self._scala.maxNumConcurrentTasks(profile)
        now_ms = int(time.time() * 1000)
        return SessionReport(now_ms, slots, self._number, False, self._is_attached, 0, sets, events)

    def apply(self, plan: Plan, number: int) -> None:
        """Set the minimum share of each job's pool to its limit; jobs without one get none."""
        with self._lock:
            if not self._is_attached:  # a plan that was made while the scheduler let go
                return
            self._number = number
            self._plans += 1
            for job, pool in self._pool_of.items():
                limit = plan.limits.get(job, 0)
                self._set(pool, limit, max(1, limit))

    def counters(self) -> dict[str, Any]:
        """Plans applied."""
        return {"plans": self._plans, "held": {}}

    def is_stopped(self) -> bool:
        """Return whether the SparkContext has stopped."""
        return self._context._jsc is None or bool(self._scala.isStopped())

    # --- looking ---------------------------------------------------------------------------------

    def _changed_jobs(self) -> Iterator[LiveEvent]:
        """Spark jobs that began or ended since the last look."""
        active = self._scala.dagScheduler().activeJobs()
        found: dict[int, Any] = {}
        every = active.iterator()
        while every.hasNext():
            job = every.next()
            found[job.jobId()] = job
        now_ms = int(time.time() * 1000)
        for number in sorted(self._jobs - found.keys()):
            yield JobDone(number, now_ms)
        for number in sorted(found.keys() - self._jobs):
            job = found[number]
            properties = _properties(job.properties())
            stages: dict[int, StageInfo] = {}
            _collect(job.finalStage(), stages)
            yield JobStart(number, now_ms, tuple(stages.values()), properties)
        self._jobs = set(found)

    def _task_sets(self) -> Iterator[TaskSet]:
        pools: dict[str, str] = {}
        for manager in _managers(self._scheduler.rootPool()):
            task_set = manager.taskSet()
            job = job_of(_properties(task_set.properties()), task_set.priority())
            pools[job] = manager.parent().name()
            yield TaskSet(
                task_set.stageId(),
                task_set.stageAttemptId(),
                job,
                manager.numTasks(),
                manager.tasksSuccessful(),
                manager.runningTasks(),
                bool(manager.isZombie()),
            )
        self._pool_of = pools

    def _set(self, name: str, share: int, weight: int) -> None:
        pool = self._scheduler.rootPool().getSchedulableByName(name)
        if pool is None:
            return
        if name not in self._original and self._is_attached:
            self._original[name] = (pool.minShare(), pool.weight())
        self._fields["minShare"].setInt(pool, share)
        self._fields["weight"].setInt(pool, weight)


def _managers(pool: Any) -> Iterator[Any]:
    """All task sets below `pool`; its sorted queue leaves out those with no task to start."""
    for one in pool.schedulableQueue().toArray():
        if one.getClass().getSimpleName() == "Pool":
            yield from _managers(one)
        else:
            yield one


def _properties(found: Any) -> dict[str, str]:
    if found is None:
        return {}
    values = ((name, found.getProperty(name)) for name in _READ)
    return {name: value for name, value in values if value is not None}


def _collect(stage: Any, found: dict[int, StageInfo]) -> None:
    """All stages up to `stage`, by way of their parents."""
    waiting = [stage]
    while waiting:
        one = waiting.pop()
        if one.id() in found:
            continue
        parents = one.parents()
        own = [parents.apply(index) for index in range(parents.size())]
        found[one.id()] = StageInfo(
            one.id(),
            one.numTasks(),
            tuple(parent.id() for parent in own),
            str(one.rdd().id()).encode(),
        )
        waiting.extend(own)
