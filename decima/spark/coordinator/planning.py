"""`Coordinator`: the division of a cluster's executors among its applications; no sockets."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from decima.policy import Policy
from decima.registry import Heuristic
from decima.spark.coordinator.applications import Application, Arrivals, MovingDelay
from decima.spark.coordinator.messages import Registration, Report
from decima.spark.coordinator.rounds import ClusterRound, Room, shares_with_floors
from decima.spark.coordinator.settings import STAND_IN, CoordinatorSettings
from decima.spark.coordinator.tables import Share, message_of, share_of, state_of
from decima.spark.loading import PolicyFor
from decima.spark.tables import GRAPH, graph_arrays
from traces.arrays import TraceArrays

_LONG_STAGE = 5.0
"""moving delays: a stage with tasks to start for longer than so many offers its executors"""
_STAY = 10.0
"""moving delays: after long stages gave executors away, all stages keep theirs for so many"""
_SAME_ARRIVAL_MS = 250.0
"""two reports of one arrival differ by less: messages take time"""
Ask = Callable[[Callable[[], None]], None]
"""how a policy is called: within a time, or directly"""


@dataclass(frozen=True)
class Division:
    """A division of the executors."""

    number: int
    by: str
    """name of the policy"""
    targets: dict[str, int]
    """executors by application"""
    chosen: tuple[int, ...] = ()
    """stages that were given executors, rows over all applications with work"""
    fault: str | None = None
    """how the policy failed, where strict fair decided"""


class Coordinator:
    """State of all applications, and the policy that divides the executors among them.

    Times are milliseconds of one clock that never goes back.
    """

    def __init__(
        self, settings: CoordinatorSettings, policy_for: PolicyFor, ask: Ask | None = None
    ) -> None:
        """`ask` calls the policy; by default directly."""
        self.settings = settings
        self.applications: dict[str, Application] = {}
        """by key, in the order of registration"""
        self.delay = MovingDelay(1000 * settings.moving_delay_s, settings.slots)
        self.stays_until_ms = -math.inf
        """until when each stage with tasks to start keeps its executors, however long it is"""
        self.failures = 0
        """rounds in which the policy failed"""
        self._arrivals = Arrivals()
        self._policy_for = policy_for
        self._ask = ask or (lambda call: call())
        self._made: tuple[dict[str, Any], TraceArrays, Policy] | None = None
        self._numbers = itertools.count(1)

    def register(self, registration: Registration, held: int, now_ms: float) -> str:
        """Take in an application; return its key.

        A cluster manager starts all executors that it may have, or that are free, and keeps them
        until another needs them. `held`: granted before the coordinator started again; 0: new.
        """
        key = registration.key
        copies = itertools.count(2)
        while key in self.applications:  # two clusters may have given one id
            key = f"{registration.key} #{next(copies)}"
        settings = self.settings
        granted = sum(application.granted for application in self.applications.values())
        free = max(0, settings.slots - granted)
        self.applications[key] = Application(
            registration,
            settings.weight_of(registration.weight, registration.user, registration.queue),
            settings.counts_jobs,
            settings.caps_of(registration.user, registration.queue),
            has_reported=held == 0,
            granted=min(held, settings.slots) if held > 0 else min(registration.most, free),
            registered=held,
            serves_since_ms=now_ms,
        )
        self.delay.note_arrivals(held, None, now_ms)
        return key

    def remove(self, key: str, now_ms: float) -> None:
        application = self.applications.pop(key)
        if application.stages is not None:
            self._arrivals.note_end(application.stages.work_ms)
        self.delay.note_departures(application.registered, now_ms)

    def report(self, key: str, report: Report, now_ms: float) -> None:
        application = self.applications[key]
        came = report.registered - application.registered
        self.delay.note_arrivals(came, application.requested_ms, now_ms)
        self.delay.note_departures(-came, now_ms)
        application.registered = report.registered
        application.has_reported = True
        old, application.stages = application.stages, report.stages
        if report.stages is not None:
            arrival_ms = max(0.0, now_ms - report.stages.age_ms)
            if old is not None and abs(arrival_ms - application.arrival_ms) < _SAME_ARRIVAL_MS:
                return
            application.arrival_ms = arrival_ms
            self._arrivals.note(arrival_ms)
        if old is not None:
            self._arrivals.note_end(old.work_ms)
            if report.stages is None:
                application.idle_since_ms = now_ms

    def plan(self, now_ms: float) -> Division:
        applications = self.applications
        self._shrink()
        for application in applications.values():
            application.note_wait(now_ms)
        active = sorted(
            (key for key, application in applications.items() if application.stages is not None),
            key=lambda key: applications[key].arrival_ms,
        )
        idlers = [key for key in applications if applications[key].stages is None]
        if not active:
            targets = {key: applications[key].granted for key in idlers}
            return Division(next(self._numbers), self.settings.policy, targets)
        reserved = {
            key: applications[key].granted
            for key in idlers
            if applications[key].is_between_jobs(now_ms, 1000 * self.settings.idle_s)
        }
        working = [applications[key] for key in active]
        caps = [dict(application.caps) for application in working]
        for key, count in reserved.items():
            for group in applications[key].caps:
                for free in caps:
                    if group in free:
                        free[group] -= count
        room = Room(self.settings.slots - sum(reserved.values()), caps)
        is_fixed = now_ms < self.stays_until_ms
        longest_ms = math.inf if is_fixed else _LONG_STAGE * self.delay.ms
        shares = shares_with_floors(
            working,
            [share_of(application, longest_ms) for application in working],
            room,
            1000 * self.settings.wait_s,
            now_ms,
        )
        round_, by, fault = self._decided(working, room, shares, now_ms)
        held = round_.holds()
        used = [
            share.busy + share.starting
            for share in (share_of(application, math.inf) for application in working)
        ]
        if not is_fixed and any(map(operator.lt, held, used)):
            self.stays_until_ms = now_ms + _STAY * self.delay.ms
        targets = dict(zip(active, held, strict=True)) | reserved
        others = [key for key in idlers if key not in reserved]
        targets |= self._left_to(others, round_.unattached(), targets)
        for key, target in targets.items():
            if target > applications[key].granted:
                applications[key].requested_ms = now_ms
            applications[key].granted = target
            applications[key].note_wait(now_ms)
        return Division(next(self._numbers), by, targets, tuple(round_.chosen), fault)

    def _shrink(self) -> None:
        """After a restart, keep to the cluster's size and to caps: the largest loses first."""
        applications = list(self.applications.values())
        groups = {
            group: cap for application in applications for group, cap in application.caps.items()
        }
        bounded = [
            ([application for application in applications if group in application.caps], cap)
            for group, cap in groups.items()
        ]
        for members, most in [*bounded, (applications, self.settings.slots)]:
            for _ in range(sum(application.granted for application in members) - most):
                max(members, key=lambda application: application.granted).granted -= 1

    def _decided(
        self, active: Sequence[Application], room: Room, shares: Sequence[Share], now_ms: float
    ) -> tuple[ClusterRound, str, str | None]:
        """Return a round that the policy filled, or strict fair where it fails; by whom, and why.

        First each application gets its floor: those first that have an executor themselves, so that
        no other takes it.
        """
        message = message_of(active, now_ms, self.settings.slots, self._arrivals)
        by_wait = sorted(
            range(len(active)),
            key=lambda job: (shares[job].idle == 0, -active[job].waited_ms(now_ms)),
        )

        def begin(trace: TraceArrays) -> ClusterRound:
            reserved = self.settings.slots - room.slots
            state = state_of(trace, message, shares, reserved, self.delay.ms)
            round_ = ClusterRound(state, active, room.caps, self.delay.ms)
            for job in by_wait:
                round_.serve_floor(job)
            return round_

        try:
            graph = {label: np.asarray(message[label]).tolist() for label in GRAPH}
            if self._made is None or self._made[0] != graph:
                trace = graph_arrays(message)
                self._made = graph, trace, self._policy_for(trace)
            trace, policy = self._made[1:]
            round_ = begin(trace)
            self._ask(partial(round_.fill, policy))
        except Exception as error:  # noqa: BLE001 - a policy may raise anything
            self.failures += 1
            self._made = None
            round_ = begin(graph_arrays(message))
            round_.fill(Heuristic(STAND_IN))
            return round_, STAND_IN, f"{type(error).__name__}: {error}"[:200]
        return round_, self.settings.policy, None

    def _left_to(
        self, idlers: Sequence[str], unattached: int, targets: Mapping[str, int]
    ) -> dict[str, int]:
        """Return what each application without work keeps, as no other needs it."""
        applications = self.applications
        remaining: dict[str, int] = {}
        for key in sorted(idlers, key=lambda key: applications[key].arrival_ms, reverse=True):
            count = min(unattached, applications[key].granted)
            for group, cap in applications[key].caps.items():
                holders = [*targets.items(), *remaining.items()]
                used = sum(held for holder, held in holders if group in applications[holder].caps)
                count = min(count, max(0, cap - used))
            remaining[key] = count
            unattached -= count
        return remaining
