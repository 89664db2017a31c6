"""Ways to divide a cluster: the recorded one, Spark's own, and a coordinator's."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from decima.spark.coordinator.messages import Registration, Report, Stages
from decima.spark.coordinator.planning import Coordinator
from decima.spark.coordinator.settings import CoordinatorSettings
from decima.spark.loading import ready_policy
from decima.whatif.applications.cluster import ApplicationRun, ClusterRun, Way
from decima.whatif.applications.workload import ApplicationsWorkload
from decima.whatif.replay.recording import FIFO
from decima.whatif.settings import ALONE, DYNAMIC, RECORDED, STATIC
from spark_sim import SimulationError
from traces.numbers import MS_PER_S

BACKLOG_MS, IDLE_MS = 1_000.0, 60_000.0
"""Spark's defaults: how long tasks wait before a request, and executors are idle before they go"""


def way_named(name: str, workload: ApplicationsWorkload) -> Way:
    executors = workload.executors
    if name == RECORDED:
        return Recorded(workload)
    if name == STATIC:
        return Fixed(workload, max(1, executors // workload.at_once))
    if name == FIFO:
        return Fixed(workload, executors)
    if name == ALONE:
        return Fixed(workload, executors, math.inf)
    if name == DYNAMIC:
        return Dynamic(workload)
    return Coordinated(name, workload)


class Recorded(Way):
    """Slots of each application as they were recorded."""

    def __init__(self, workload: ApplicationsWorkload) -> None:
        super().__init__(workload)
        self.slots_each, self.delay_ms, self.room = 1, 0.0, math.inf

    def divide(self, run: ClusterRun) -> None:
        for application in run.active:
            curve = application.work.curve
            run.set_target(application, int(curve.at(np.array([run.now_ms]))[0]))
            later = int(np.searchsorted(curve.time_ms, run.now_ms, side="right"))
            if later < len(curve.time_ms):
                run.wake(float(curve.time_ms[later]))


class Fixed(Way):
    """Equal numbers of executors for all applications, from start to end.

    As many as there are is Spark's FIFO by application: the later wait for those before.
    """

    def __init__(
        self, workload: ApplicationsWorkload, target: int, room: float | None = None
    ) -> None:
        """`room`: of the cluster; None: as many as it has."""
        super().__init__(workload)
        self.room = self.room if room is None else room
        self._target = target

    def begin(self, run: ClusterRun, application: ApplicationRun) -> None:
        """Request all at once."""
        run.set_target(application, self._target)


@dataclass
class _Requests:
    """State of Spark's dynamic allocation of one application."""

    step: int = 1
    add_ms: float = math.inf
    """when more executors are requested"""


class Dynamic(Way):
    """Dynamic allocation by Spark's rules with its defaults (`spark_sim.kernels.allocation`).

    No executor at first, and no bound but the cluster. Its executors go to the first that requests
    them, to the application that started first where several wait.
    """

    def __init__(self, workload: ApplicationsWorkload) -> None:
        super().__init__(workload)
        self._requests: dict[int, _Requests] = {}

    def begin(self, run: ClusterRun, application: ApplicationRun) -> None:
        """Begin without executors."""
        self._requests[application.place] = _Requests()

    def divide(self, run: ClusterRun) -> None:
        for application in run.active:
            requests = self._requests[application.place]
            pending, before = application.pending, application.target
            needed = -(-(pending + application.running) // self.slots_each)
            if needed < before:
                application.target, requests.step = needed, 1
            elif pending > 0:
                requests.add_ms = min(requests.add_ms, run.now_ms + BACKLOG_MS)
                if requests.add_ms <= run.now_ms:
                    # The target rises by the step that is due; the next step is twice as large.
                    raised = max(before, len(application.staying)) + requests.step
                    application.target = max(before, min(raised, needed))
                    is_whole = application.target - before == requests.step
                    requests.step = 2 * requests.step if is_whole else 1
                    requests.add_ms = run.now_ms + BACKLOG_MS
            if pending == 0:
                requests.add_ms, requests.step = math.inf, 1
            elif needed > application.target:
                run.wake(requests.add_ms)
            spare = application.held - application.target
            idle = [executor for executor in application.staying if executor.busy == 0]
            for executor in sorted(idle, key=lambda executor: executor.idle_ms)[: max(0, spare)]:
                due_ms = executor.idle_ms + IDLE_MS
                if due_ms > run.now_ms:
                    run.wake(due_ms)
                    break
                run.release(application, executor)


class Coordinated(Way):
    """Executors that a coordinator grants to each application.

    It plans where the simulator's `executors` protocol has a scheduling event. Waiting is bounded
    as on a live cluster.
    """

    def __init__(self, policy: str, workload: ApplicationsWorkload) -> None:
        super().__init__(workload)
        settings = CoordinatorSettings(
            workload.executors, policy, moving_delay_s=workload.delay_ms / MS_PER_S
        )
        self._coordinator = Coordinator(settings, ready_policy(policy))
        self._estimated = workload.jobs.arrays
        self._keys: dict[int, str] = {}
        self._due_ms = np.inf

    def begin(self, run: ClusterRun, application: ApplicationRun) -> None:
        most = run.workload.executors
        registration = Registration(
            str(application.place), application.work.name, "", "", 1.0, most, self.slots_each
        )
        key = self._keys[application.place] = self._coordinator.register(
            registration, 0, run.now_ms
        )
        run.set_target(application, self._coordinator.applications[key].granted)

    def end(self, run: ClusterRun, application: ApplicationRun) -> None:
        self._coordinator.remove(self._keys.pop(application.place), run.now_ms)

    def divide(self, run: ClusterRun) -> None:
        """Plan anew at news or a bound of waiting; a failed policy is an error."""
        if not run.active:
            return
        if not run.is_news and run.now_ms < self._due_ms:
            run.wake(self._due_ms)
            return
        for application in run.active:
            report = Report(self._stages(application, run.now_ms), len(application.staying), ())
            self._coordinator.report(self._keys[application.place], report, run.now_ms)
        division = self._coordinator.plan(run.now_ms)
        if division.fault is not None:
            raise SimulationError(f"{self._coordinator.settings.policy}: {division.fault}")
        for application in run.active:
            run.set_target(application, division.targets[self._keys[application.place]])
        registered = self._coordinator.applications.values()
        # The next application without work loses its claim on its executors.
        idle_ms = MS_PER_S * self._coordinator.settings.idle_s
        due_ms = [
            application.idle_since_ms + idle_ms
            for application in registered
            if application.is_between_jobs(run.now_ms, idle_ms)
        ]
        # An application has waited for too long. An executor is given away once it has served for
        # as long, too.
        wait_ms = MS_PER_S * self._coordinator.settings.wait_s
        waits_ms = [
            application.waited_ms(run.now_ms)
            for application in registered
            if application.waits_since_ms is not None
        ]
        if waits_ms:
            left_ms = wait_ms - max(waits_ms)
            due_ms.append(run.now_ms + (left_ms if left_ms > 0 else wait_ms / 10))
        if self._coordinator.stays_until_ms > run.now_ms:
            due_ms.append(self._coordinator.stays_until_ms)
        self._due_ms = min(due_ms, default=np.inf)
        run.wake(self._due_ms)

    def _stages(self, application: ApplicationRun, now_ms: float) -> Stages | None:
        """Return the stages of all unfinished jobs, as a driver reports them."""
        if not application.jobs:
            return None
        stages = [stage for job in application.jobs for stage in job.stages]
        rows = np.array([stage.row for stage in stages])
        num_children: list[int] = [0]
        children: list[int] = []
        for job in application.jobs:
            first = len(num_children) - 1
            for stage in job.stages:
                num_children.append(len(stage.children))
                children.extend(first + child for child in stage.children)
        return Stages(
            len(application.jobs),
            now_ms - min(job.arrival_ms for job in application.jobs),
            np.array([stage.num_tasks for stage in stages]),
            np.array([stage.launched for stage in stages]),
            np.array([stage.finished for stage in stages]),
            np.array([stage.is_runnable for stage in stages], np.int64),
            self._estimated.mean_ms[rows],
            self._estimated.critical_path_ms[rows],
            np.cumsum(num_children),
            np.array(children, np.int64),
        )
