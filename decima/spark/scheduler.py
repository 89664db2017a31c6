"""`Scheduler`: a policy decides for a live session, for as long as that goes well."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np

from decima.spark.dashboard import serve as serve_dashboard
from decima.spark.decision_log import DecisionLog
from decima.spark.due import Due
from decima.spark.jobs import LiveJobs
from decima.spark.metrics import serve as serve_metrics
from decima.spark.planning import Plan, Planner
from decima.spark.reports import SessionReport
from decima.spark.status import Rate, SchedulerStatus, Unserved, held_slots, jobs_of
from decima.spark.switching import Switch

LOG = logging.getLogger("decima.spark")

_WAIT_MS = 200
_PAUSE_S = 0.02
"""after a report of which nothing follows: tiny jobs would bring several each"""
_KEPT_LATENCIES = 1_000
_ABANDONED = "the JVM detached by itself after too long without a message"
_FAR = 2.0
"""a model trained for so many times fewer or more slots is at a loss"""


class Control(Protocol):
    """Protocol of the control of a session: `Jvm` or `SoftControl`."""

    def attach(self) -> None:
        """Begin to act."""
        ...

    def detach(self) -> None:
        """Leave everything as it was found."""
        ...

    def wait(self, timeout_ms: int) -> SessionReport:
        """Return what has happened, at the latest after `timeout_ms`."""
        ...

    def apply(self, plan: Plan, number: int) -> None:
        """Put a plan in force."""
        ...

    def counters(self) -> dict[str, Any]:
        """Return the counters."""
        ...

    def is_stopped(self) -> bool:
        """Return whether the SparkContext has stopped."""
        ...


class Scheduler:
    """A policy attached to one SparkContext; made by `attach`."""

    def __init__(
        self,
        control: Control,
        planner: Planner,
        live: LiveJobs,
        *,
        mode: str,
        policy: str,
        open_log: Callable[[], DecisionLog] | None = None,
        trained_slots: tuple[int, int] | None = None,
        switch: Switch | None = None,
    ) -> None:
        self.mode = mode
        self.policy = policy
        self._control = control
        self._planner = planner
        self._live = live
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="decima-scheduler", daemon=True)
        self._open_log = open_log
        self._trained_slots = trained_slots
        self._switch = switch
        self._log: DecisionLog | None = None
        self._number = 0
        self._plan: Plan | None = None
        self._report: SessionReport | None = None
        self._latency_ms: deque[float] = deque(maxlen=_KEPT_LATENCIES)
        self._due = Due()
        self._ended_because: str | None = None
        self._is_attached = False
        self._rate = Rate()
        self._unserved = Unserved()
        self._began_s: float | None = None
        self._heard_s: float | None = None
        self._stops: list[Callable[[], None]] = []
        self.dashboard_url: str | None = None
        """of the live page, while it is served"""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()

    @property
    def is_attached(self) -> bool:
        return self._is_attached

    def start(self) -> None:
        """Attach and begin to decide.

        Raises:
            AttachError: another scheduler is attached, or the decision log cannot be written.
        """
        self._control.attach()
        self._is_attached = True
        self._began_s = time.monotonic()
        # Not before: the log may be that of the scheduler which is attached already.
        if self._open_log is not None:
            self._log = self._open_log()
        self._thread.start()
        LOG.info("attached: policy %s, mode %s", self.policy, self.mode)

    def serve_metrics(self, port: int) -> None:
        """Serve `status` to Prometheus until `detach`.

        Raises:
            AttachError: the port is taken.
        """
        self._stops.append(serve_metrics(self.status, port))

    def serve_dashboard(self, port: int) -> None:
        """Serve the live page until `detach`, at `dashboard_url`.

        Raises:
            AttachError: the port is taken.
        """
        self.dashboard_url, stop = serve_dashboard(self.status, port)
        self._stops.append(stop)
        LOG.info("live page: %s", self.dashboard_url)

    def detach(self) -> None:
        """Give Spark its own objects back; jobs that run go on. Twice does no harm."""
        self._stop.set()
        self._let_go()
        if threading.current_thread() is not self._thread and self._thread.ident is not None:
            self._thread.join(timeout=5.0)
        if self._log is not None:
            self._read_the_rest()
            self._log.note_jobs(self._live.ended)
            self._log.note_jobs(self._live.untold())
            self._log.close()
            self._log = None
        if self._switch is not None:
            self._switch.close()
        self._planner.close()
        while self._stops:
            self._stops.pop()()
        self.dashboard_url = None

    def status(self) -> SchedulerStatus:
        """A picture of now."""
        latency = np.array(self._latency_ms or [0.0])
        report, plan, jvm = self._report, self._plan, self._counters()
        abandoned = _ABANDONED if jvm.get("abandoned") else None
        now_s = time.monotonic()
        matches = list(self._live.matches.items())
        limits = {} if plan is None else dict(plan.limits)
        unserved_ms = self._unserved.since_ms
        jobs = () if report is None else jobs_of(report, self._live.known(), limits, unserved_ms)
        return SchedulerStatus(
            mode=self.mode,
            policy=self.policy,
            choice=None if self._switch is None else self._switch.choice,
            is_attached=self._is_attached and abandoned is None,
            ended_because=self._ended_because or abandoned,
            plans=self._number,
            fallbacks=self._planner.failures,
            last_fault=self._planner.last_fault,
            starved=self._planner.starved,
            plan_ms_median=float(np.median(latency)),
            plan_ms_p90=float(np.quantile(latency, 0.9)),
            held={} if report is None else held_slots(report),
            limits=limits,
            dropped_events=0 if report is None else report.dropped,
            prior_hits=sum(n for match, n in matches if match.is_hit),
            prior_misses=sum(n for match, n in matches if not match.is_hit),
            is_ready=self._planner.is_ready or self._switch is not None,
            jvm=jvm,
            slots=0 if report is None else report.slots,
            jobs=jobs,
            is_lapsed=report is not None and report.lapsed,
            decisions_per_s=self._rate.per_s(now_s),
            uptime_s=None if self._began_s is None else now_s - self._began_s,
            heard_s=None if self._heard_s is None else now_s - self._heard_s,
        )

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and self._step():
                pass
        except Exception as error:  # on any error Spark continues by itself
            if not self._stop.is_set() and not self._is_stopped():
                self._ended_because = f"{type(error).__name__}: {error}"
                LOG.exception("the scheduler failed and detaches")
        finally:
            self._let_go()

    def _read_the_rest(self) -> None:
        """The ends of the last jobs, for the log; the thread has ended, and events come no more."""
        try:
            self._live.update(self._control.wait(0))
        except Exception as error:  # noqa: BLE001 - the JVM is gone
            LOG.debug("last report: %s", error)

    def _step(self) -> bool:
        report = self._control.wait(_WAIT_MS)
        began = time.perf_counter()
        self._report, self._heard_s = report, time.monotonic()
        self._unserved.update(report)
        self._check_slots(report.slots)
        self._live.update(report)
        if self._log is not None:
            self._log.note_jobs(self._live.ended)
        if not report.attached:
            self._note_end()
            return False
        if self._switch is not None and not self._switch.look(self._live, time.monotonic()):
            # Spark's own order is in force: the next plan, when it comes, is the first one.
            self._plan, self._due = None, Due()
            self._stop.wait(_PAUSE_S)
            return True
        if not self._due.is_due(report, self._plan, time.monotonic()):
            if not any(one.waiting for one in report.sets):
                self._stop.wait(_PAUSE_S)
            return True
        plan = self._planner.plan(self._live, idle_ms=report.idle_ms, idle_slots=report.idle_slots)
        if plan is not None:
            self._put_in_force(plan, report, began)
        given_up = self._planner.given_up
        if given_up is None:
            return True
        if self._switch is not None:
            self._switch.give_up(given_up, self._live)
            return True
        self._ended_because = given_up
        LOG.error("%s: detaching", given_up)
        return False

    def _put_in_force(self, plan: Plan, report: SessionReport, began: float) -> None:
        self._number += 1
        self._plan = plan
        began_ms = _now_ms()
        if self.mode != "shadow":
            self._control.apply(plan, self._number)
        self._latency_ms.append(1000 * (time.perf_counter() - began))
        self._rate.note(len(plan.chosen), time.monotonic())
        if self._log is not None:
            applied_ms = (began_ms, _now_ms())
            is_left = self.mode == "shadow" or (self._switch is not None and self._switch.is_left)
            self._log.note_plan(self._number, report, plan, applied_ms, is_in_force=not is_left)

    def _note_end(self) -> None:
        """Report why the JVM is no longer attached, unless `detach` was called."""
        if self._stop.is_set():
            return
        if self._is_stopped():
            self._ended_because = "the SparkContext was stopped"
            LOG.info("%s", self._ended_because)
        else:
            self._ended_because = _ABANDONED
            LOG.error("%s: Spark continues by itself", self._ended_because)

    def _check_slots(self, slots: int) -> None:
        """Warn once where a model meets a cluster of another size: it may do worse than FAIR."""
        trained = self._trained_slots
        if trained is not None and slots > 0:
            self._trained_slots = None
            least, most = trained
            if not least / _FAR <= slots <= most * _FAR:
                LOG.warning(
                    "%s was trained for %d to %d slots and this session has %d: train it for "
                    "these, or attach es_rule",
                    self.policy,
                    least,
                    most,
                    slots,
                )

    def _let_go(self) -> None:
        if not self._is_attached:
            return
        self._is_attached = False
        try:
            self._control.detach()
        except Exception as error:  # noqa: BLE001 - the JVM is gone
            LOG.debug("detach: %s", error)

    def _counters(self) -> dict[str, Any]:
        try:
            return self._control.counters()
        except Exception:  # noqa: BLE001 - as above: a status must not fail
            return {}

    def _is_stopped(self) -> bool:
        try:
            return self._control.is_stopped()
        except Exception:  # noqa: BLE001 - it does not answer
            return True


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
