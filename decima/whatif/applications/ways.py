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
        return Recorded()
    if name == STATIC:
        return Fixed(workload, max(1, executors // workload.at_once))
    if name == FIFO:
        return Fixed(workload, executors)
    if name == ALONE:
        return Fixed(workload, executors, math.inf)
    if name == DYNAMIC:
        return Dynamic(workload)
    return Coordinated(name, workload)


class Recorded:
    """Slots of each application as they were recorded."""

    slots_each = 1
    delay_ms = 0.0
    """a slot is there from when it was recorded"""
    room = math.inf

    def begin(self, run: ClusterRun, one: ApplicationRun) -> None:
        """Plan the changes of its slots."""

    def end(self, run: ClusterRun, one: ApplicationRun) -> None:
        """Do nothing: its slots are no other's."""

    def divide(self, run: ClusterRun) -> None:
        """Follow the recorded slots, up to the next change."""
        for one in run.active:
            curve = one.work.curve
            run.set_target(one, int(curve.at(np.array([run.now_ms]))[0]))
            later = int(np.searchsorted(curve.time_ms, run.now_ms, side="right"))
            if later < len(curve.time_ms):
                run.wake(float(curve.time_ms[later]))


class Fixed:
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
        self.slots_each = workload.slots_each
        self.delay_ms = workload.delay_ms
        self.room = workload.executors if room is None else room
        self._target = target

    def begin(self, run: ClusterRun, one: ApplicationRun) -> None:
        """Request all at once."""
        run.set_target(one, self._target)

    def end(self, run: ClusterRun, one: ApplicationRun) -> None:
        """Do nothing: the cluster manager gives them to the next."""

    def divide(self, run: ClusterRun) -> None:
        """Do nothing: targets stay."""


@dataclass
class _Requests:
    """State of Spark's dynamic allocation of one application."""

    step: int = 1
    add_ms: float = math.inf
    """when more executors are requested"""


class Dynamic:
    """Dynamic allocation by Spark's rules with its defaults (`spark_sim.kernels.allocation`).

    No executor at first, and no bound but the cluster. Its executors go to the first that requests
    them, to the application that started first where several wait.
    """

    def __init__(self, workload: ApplicationsWorkload) -> None:
        self.slots_each = workload.slots_each
        self.delay_ms = workload.delay_ms
        self.room: float = workload.executors
        self._requests: dict[int, _Requests] = {}

    def begin(self, run: ClusterRun, one: ApplicationRun) -> None:
        """Begin without executors."""
        self._requests[one.place] = _Requests()

    def end(self, run: ClusterRun, one: ApplicationRun) -> None:
        """Do nothing: the cluster manager gives its executors to the next."""

    def divide(self, run: ClusterRun) -> None:
        """Request executors for tasks that wait, and let idle ones go."""
        for one in run.active:
            self._request(run, one, self._requests[one.place])
            self._let_go(run, one)

    def _request(self, run: ClusterRun, one: ApplicationRun, own: _Requests) -> None:
        needed = -(-(one.pending + one.running) // self.slots_each)
        if needed < one.target:
            one.target, own.step = needed, 1
        elif one.pending > 0:
            own.add_ms = min(own.add_ms, run.now_ms + BACKLOG_MS)
            if own.add_ms <= run.now_ms:
                self._raise(run, one, own, needed)
        if one.pending == 0:
            own.add_ms, own.step = math.inf, 1
        elif needed > one.target:
            run.wake(own.add_ms)

    def _raise(self, run: ClusterRun, one: ApplicationRun, own: _Requests, needed: int) -> None:
        """Raise the target by the step that is due; the next step is twice as large."""
        before = one.target
        one.target = max(before, min(max(before, len(one.staying)) + own.step, needed))
        own.step = 2 * own.step if one.target - before == own.step else 1
        own.add_ms = run.now_ms + BACKLOG_MS

    def _let_go(self, run: ClusterRun, one: ApplicationRun) -> None:
        spare = one.held - one.target
        idle = [executor for executor in one.staying if executor.busy == 0]
        for executor in sorted(idle, key=lambda other: other.idle_ms):
            if spare <= 0:
                return
            due_ms = executor.idle_ms + IDLE_MS
            if due_ms > run.now_ms:
                run.wake(due_ms)
                return
            run.release(one, executor)
            spare -= 1
