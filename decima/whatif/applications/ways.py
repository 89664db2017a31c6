"""Ways to divide a cluster that need no coordinator."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from decima.whatif.applications.cluster import ApplicationRun, ClusterRun, Way
from decima.whatif.applications.coordinated import Coordinated
from decima.whatif.applications.workload import ApplicationsWorkload
from decima.whatif.replay.recording import FIFO
from decima.whatif.settings import ALONE, DYNAMIC, RECORDED, STATIC

BACKLOG_MS, IDLE_MS = 1_000.0, 60_000.0
"""Spark's defaults: how long tasks wait before a request, and executors are idle before they go"""


def way_named(name: str, workload: ApplicationsWorkload) -> Way:
    """Return the way of that name, for one run."""
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
        """A slot is there from when it was recorded."""
        super().__init__(workload)
        self.slots_each, self.delay_ms, self.room = 1, 0.0, math.inf

    def divide(self, run: ClusterRun) -> None:
        """Follow the recorded slots, up to the next change."""
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
        """Args:
        workload: the applications.
        target: executors of each.
        room: of the cluster; None: as many as it has.
        """
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
        """Args:
        workload: the applications.
        """
        super().__init__(workload)
        self._requests: dict[int, _Requests] = {}

    def begin(self, run: ClusterRun, application: ApplicationRun) -> None:
        """Begin without executors."""
        self._requests[application.place] = _Requests()

    def divide(self, run: ClusterRun) -> None:
        """Request executors for tasks that wait, and let idle ones go."""
        for application in run.active:
            self._request(run, application, self._requests[application.place])
            spare = application.held - application.target
            idle = [executor for executor in application.staying if executor.busy == 0]
            for executor in sorted(idle, key=lambda executor: executor.idle_ms)[: max(0, spare)]:
                due_ms = executor.idle_ms + IDLE_MS
                if due_ms > run.now_ms:
                    run.wake(due_ms)
                    break
                run.release(application, executor)

    def _request(self, run: ClusterRun, application: ApplicationRun, requests: _Requests) -> None:
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
