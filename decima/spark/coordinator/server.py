"""`CoordinatorServer`: drivers connect, register and report; each new target is sent at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import TimeoutError as LateError

import numpy as np

from decima.spark.coordinator.log import CoordinatorLog
from decima.spark.coordinator.messages import (
    HELLO_S,
    Connection,
    MessageError,
    read_registration,
    read_report,
)
from decima.spark.coordinator.planning import Coordinator, Division
from decima.spark.coordinator.settings import CoordinatorSettings
from decima.spark.loading import PolicyFor
from decima.spark.status import JobStatus, SchedulerStatus
from decima.spark.worker import Worker
from traces.files.names import one_line

LOG = logging.getLogger("decima.spark")

_UNKNOWN = 64
"""connections that may be without a proof at a time; beyond it the oldest is closed"""
_DRIVERS = 1_000
_BACKLOG = 128
_PAUSE_S = 0.02
"""between plans: reports that come together are one plan"""
_LOOK_S = 0.5
"""between plans without news, which look at bounds of waiting"""
_BEAT_S = 0.9
"""between signs of life; a driver waits for some seconds"""
_RECONNECT_S = 2.0
"""in which drivers that another coordinator served come back: each tries once a second"""
_MISSING_S = 120.0
"""an executor that is granted and does not register for so long is worth a warning"""
_TIMES = 1_000
_RATE_S = 10.0

WORDS = {
    "job": "application",
    "slot": "executor",
    "limit": "target",
    "whole": "cluster",
    "held": "registered",
    "unserved": "without an executor",
    "age": "with work for",
    "present": "connected",
    "since": "running for",
    "live": "Dividing the executors.",
    "gone": "the coordinator has ended or is too busy",
    "hint": "A stage with tasks to start for longer than five moving delays offers its executors; "
    "the others keep theirs, and all do for ten moving delays after such a division.",
}
"""words of the page, as `decima.spark.dashboard.SESSION`"""


class PolicyCalls:
    """Calls of the policy in a thread, each within a time."""

    def __init__(self, decision_s: float) -> None:
        self._decision_s = decision_s
        self._worker = Worker("decima-coordinator-policy")

    def __call__(self, call: Callable[[], None]) -> None:
        """Make a call; TimeoutError if it took too long: its thread is left alone."""
        future = self._worker.submit(call)
        try:
            future.result(timeout=self._decision_s)
        except LateError as late:
            if not future.done():
                self._worker.close()
                self._worker = Worker("decima-coordinator-policy")
                raise TimeoutError(f"no decision within {self._decision_s:g} s") from late
            raise


class PlanTimes:
    """Times of the newest plans."""

    def __init__(self) -> None:
        self.count = 0
        self._newest: deque[tuple[float, float]] = deque(maxlen=_TIMES)
        """when each was made, and in how many seconds"""

    def note(self, took_s: float) -> None:
        self.count += 1
        self._newest.append((time.monotonic(), took_s))

    def quantile_s(self, part: float) -> float:
        """Return a quantile of the time of a plan, 0 before the first."""
        took_s = [took_s for _, took_s in list(self._newest)]
        return float(np.quantile(took_s, part)) if took_s else 0.0

    def per_s(self) -> float:
        begin_s = time.monotonic() - _RATE_S
        return sum(at_s > begin_s for at_s, _ in list(self._newest)) / _RATE_S


class CoordinatorServer:
    """Server of one coordinator; all its methods belong to one event loop."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        policy_for: PolicyFor,
        secret: bytes,
        log: CoordinatorLog | None = None,
    ) -> None:
        self.coordinator = Coordinator(settings, policy_for, PolicyCalls(settings.decision_s))
        self.times = PlanTimes()
        self.division: Division | None = None
        """the newest"""
        self.failed_plans = 0
        """rounds in which planning itself failed"""
        self._secret = secret
        self._log = log
        self._unknown: OrderedDict[int, Connection] = OrderedDict()
        self._drivers: dict[str, Connection] = {}
        self._sent: dict[str, int] = {}
        self._news = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._planner: asyncio.Task[None] | None = None
        self._warned: set[str] = set()
        self._began_s = self._plans_from_s = time.monotonic()

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen; return the port. OSError if the address is taken."""
        self._server = await asyncio.start_server(
            self._serve, host, port, backlog=_BACKLOG, ssl=tls,
            ssl_handshake_timeout=None if tls is None else HELLO_S,
        )  # fmt: skip
        self._planner = asyncio.create_task(self._plan_for_ever())
        return int(self._server.sockets[0].getsockname()[1])

    async def run(self) -> None:
        """Plan until the server is closed."""
        if self._planner is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._planner

    def close(self) -> None:
        """Hang up; the drivers go on with what they hold."""
        if self._planner is not None:
            self._planner.cancel()
        if self._server is not None:
            self._server.close()
        for connection in [*self._drivers.values(), *self._unknown.values()]:
            connection.close()
        if self._log is not None:
            self._log.close()

    # --- status ---------------------------------------------------------------------------------

    def status(self) -> SchedulerStatus:
        now_ms = _now_ms()
        jobs = [
            JobStatus(
                key=key,
                name=application.registration.name,
                held=application.registered,
                limit=application.granted,
                waiting_tasks=application.waiting_tasks,
                age_s=None
                if application.stages is None
                else max(0.0, now_ms - application.arrival_ms) / 1000,
                unserved_s=None
                if application.waits_since_ms is None
                else (now_ms - application.waits_since_ms) / 1000,
            )
            for key, application in dict(self.coordinator.applications).items()
        ]
        return SchedulerStatus(
            mode="applications",
            policy=self.coordinator.settings.policy,
            is_attached=True,
            ended_because=None,
            plans=self.times.count,
            fallbacks=self.coordinator.failures,
            last_fault=None if self.division is None else self.division.fault,
            starved=0,
            plan_ms_median=1000 * self.times.quantile_s(0.5),
            plan_ms_p90=1000 * self.times.quantile_s(0.9),
            held={job.key: job.held for job in jobs},
            limits={job.key: job.limit for job in jobs if job.limit is not None},
            dropped_events=0,
            prior_hits=0,
            prior_misses=0,
            slots=self.coordinator.settings.slots,
            jobs=tuple(jobs),
            decisions_per_s=self.times.per_s(),
            uptime_s=time.monotonic() - self._began_s,
            heard_s=0.0,
        )

    def metrics(self) -> str:
        coordinator, times = self.coordinator, self.times
        applications = dict(coordinator.applications)
        metrics: dict[tuple[str, str], dict[str, float]] = {
            ("applications", "gauge"): {"": len(applications)},
            ("slots", "gauge"): {"": coordinator.settings.slots},
            ("plans_total", "counter"): {"": times.count},
            ("fallbacks_total", "counter"): {"": coordinator.failures},
            ("failed_plans_total", "counter"): {"": self.failed_plans},
            ("moving_delay_seconds", "gauge"): {"": coordinator.delay.ms / 1000},
            ("moving_delay_samples", "gauge"): {"": coordinator.delay.samples},
            ("plan_seconds", "gauge"): {
                f'{{quantile="{part}"}}': times.quantile_s(part) for part in (0.5, 0.9)
            },
        }
        for name in ("granted", "registered", "waiting_tasks"):
            values = metrics[name, "gauge"] = {}
            for key, application in applications.items():
                quoted = key.replace("\\", "\\\\").replace('"', '\\"')
                values[f'{{application="{quoted}"}}'] = getattr(application, name)
        lines = []
        for (name, kind), values in metrics.items():
            lines.append(f"# TYPE decima_coordinator_{name} {kind}")
            lines += [f"decima_coordinator_{name}{label} {values[label]}" for label in values]
        return "\n".join(lines) + "\n"

    # --- connections ----------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        self._unknown[id(connection)] = connection
        if len(self._unknown) > _UNKNOWN:
            self._unknown.popitem(last=False)[1].close()
        try:
            is_known = await connection.is_known(self._secret)
            self._unknown.pop(id(connection), None)
            if is_known:
                await self._serve_driver(connection)
            else:
                LOG.debug("a connection without the secret")
        except MessageError as error:
            LOG.warning("a driver's message: %s", error)
            connection.send({"refused": str(error)})
        except TimeoutError:
            LOG.warning("a driver did not register in time")
        except Exception as error:  # any: one line, and this connection alone ends
            LOG.warning("a connection: %s", one_line(f"{type(error).__name__}: {error}"))
            LOG.debug("the connection", exc_info=error)
        finally:
            self._unknown.pop(id(connection), None)
            connection.close()

    async def _serve_driver(self, connection: Connection) -> None:
        silence_s = self.coordinator.settings.silence_s
        async with asyncio.timeout(silence_s):
            message = await connection.receive()
        if message is None:
            return
        if len(self._drivers) >= _DRIVERS:
            connection.send({"refused": f"{_DRIVERS} applications are connected already"})
            return
        registration = read_registration(message)
        held = read_report({"registered": message.get("held", 0), "number": 0}).registered
        key = self.coordinator.register(registration, held, _now_ms())
        self._drivers[key] = connection
        if held > 0:
            # Another driver may hold executors, too: no plan before it had time to come back.
            self._plans_from_s = self._began_s + _RECONNECT_S
        LOG.info("%s (%s, user %s) registered", key, registration.name, registration.user)
        connection.send({"welcome": {"key": key, "policy": self.coordinator.settings.policy}})
        self._news.set()
        try:
            while True:
                async with asyncio.timeout(silence_s):
                    message = await connection.receive()
                if message is None:
                    break
                report = read_report(message)
                self.coordinator.report(key, report, _now_ms())
                if self._log is not None and report.ended:
                    self._log.jobs(key, registration.name, report.ended)
                if not message.get("is_beat"):
                    self._news.set()
        except TimeoutError:
            LOG.warning("%s is silent for %g s: its share is free", key, silence_s)
        finally:
            del self._drivers[key]
            self._sent.pop(key, None)
            self._warned.discard(key)
            self.coordinator.remove(key, _now_ms())
            LOG.info("%s is gone: its share is free", key)
            self._news.set()

    # --- plans ----------------------------------------------------------------------------------

    async def _plan_for_ever(self) -> None:
        failed_because: str | None = None
        beat_s = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._news.wait()
            self._news.clear()
            try:
                if self._drivers and time.monotonic() >= self._plans_from_s:
                    self._plan()
                    failed_because = None
            except Exception as error:  # any: it costs this round, not all drivers
                self.failed_plans += 1
                reason = one_line(f"{type(error).__name__}: {error}")
                level = logging.DEBUG if reason == failed_because else logging.ERROR
                failed_because = reason
                LOG.log(level, "no plan in this round, targets stay: %s", reason)
                LOG.debug("the failed plan", exc_info=error)
            if time.monotonic() - beat_s > _BEAT_S:
                beat_s = time.monotonic()
                for connection in list(self._drivers.values()):
                    connection.send({"beat": True})
            await asyncio.sleep(_PAUSE_S)

    def _plan(self) -> None:
        began = time.perf_counter()
        time_ms = int(1000 * time.time())
        division = self.coordinator.plan(_now_ms())
        changed = {
            key: target for key, target in division.targets.items()
            if self._sent.get(key) != target
        }  # fmt: skip
        for key, target in changed.items():
            self._sent[key] = target
            self._drivers[key].send({"target": target, "number": division.number})
        self.times.note(time.perf_counter() - began)
        if division.fault is not None:
            LOG.warning("the policy failed, strict fair decides: %s", division.fault)
        if self.division is None or changed or division.fault is not None:
            self.division = division
            if self._log is not None:
                self._log.plan(division, self.coordinator, time_ms)
        late_ms = _now_ms() - 1000 * _MISSING_S
        for key, application in self.coordinator.applications.items():
            is_missing = application.starting > 0 and application.waiting_tasks > 0
            requested_ms = late_ms if application.requested_ms is None else application.requested_ms
            if is_missing and key not in self._warned and requested_ms < late_ms:
                self._warned.add(key)
                LOG.warning(
                    "%s: %d of %d executors have not registered for %g s; does the cluster have "
                    "so many?", key, application.starting, application.granted, _MISSING_S,
                )  # fmt: skip


def _now_ms() -> float:
    return 1000 * time.monotonic()
