"""A scheduler's status as a live page, served to this machine only, on request.

It changes nothing. No thread of the scheduler ever waits for it: a status is read in a thread of
its own, once for all simultaneous requests.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from decima.spark.settings import AttachError
from decima.spark.status import SchedulerStatus
from decima.spark.worker import Worker
from traces.loopback import ADDRESS

LOG = logging.getLogger("decima.spark")

SESSION = {
    "job": "job",
    "slot": "slot",
    "limit": "limit",
    "whole": "session",
    "held": "busy",
    "unserved": "without a slot",
    "age": "in the system",
    "present": "in the system",
    "since": "attached for",
    "live": "Attached.",
    "gone": "the scheduler was detached, or its application has ended or is too busy",
    "hint": "Where every task finds a slot by itself, nothing is decided; a plan expires if the "
    "scheduler sends nothing while slots are idle.",
}
"""words of the page of a session"""
SHOWN_JOBS = 200
_SHOWN = (
    "mode", "state", "reason", "is_attached", "is_ready", "is_lapsed", "ended_because", "uptime_s",
    "heard_s", "slots", "decisions_per_s", "plans", "plan_ms_median", "plan_ms_p90", "fallbacks",
    "last_fault", "starved", "dropped_events", "prior_hits", "prior_misses",
)  # fmt: skip
"""fields of the status that are served as they are"""
_NAME_LENGTH = 200
_FRESH_S = 0.25
"""lifetime of a cached status"""
_PATIENCE_S = 3.0
"""for a status; then the answer is that there is none"""
_CONNECTIONS = 32
"""connections at a time; more are closed unread, to bound the driver's threads"""
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def serve(
    status: Callable[[], SchedulerStatus],
    port: int,
    metrics: Callable[[], str] | None = None,
    words: Mapping[str, str] = SESSION,
) -> tuple[str, Callable[[], None]]:
    """Serve on `port` (0: any free one), to this machine only; AttachError if it is taken.

    With `metrics`, its text is `/metrics`, for Prometheus. `words` are those of `SESSION`. Returns
    the address of the page, and how to stop.
    """
    # Its template engine is for those who ask for a page.
    from decima.report.page import live_page

    text, policy = live_page(words)
    statuses = _Statuses(status)
    try:
        server = _Server(port, statuses, text.encode(), policy, metrics)
    except OSError as error:
        statuses.close()
        raise AttachError(f"dashboard port {port}: {error.strerror or error}") from error
    thread = threading.Thread(
        target=lambda: server.serve_forever(poll_interval=0.1), name="decima-dashboard", daemon=True
    )
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        statuses.close()
        thread.join(timeout=5.0)

    return f"http://{ADDRESS}:{server.port}/", stop


def content(status: SchedulerStatus) -> dict[str, Any]:
    """Content of `/status.json`: the status without the parts that the page does not show."""
    jobs, choice = status.jobs[:SHOWN_JOBS], status.choice
    policy = status.policy
    if choice is not None:
        policy += f": {choice.policy}{' in shadow' if choice.is_shadow else ''}"
    return {
        "format": "decima-status",
        "version": 1,
        **{name: getattr(status, name) for name in _SHOWN},
        "policy": policy[:_NAME_LENGTH],
        "why": None if choice is None else choice.why[:_NAME_LENGTH],
        "held": sum(status.held.values()),
        "jobs": [{**asdict(job), "name": job.name[:_NAME_LENGTH]} for job in jobs],
        "jobs_left_out": len(status.jobs) - len(jobs),
        "queue": sum(job.unserved_s is not None for job in status.jobs),
        "waiting_tasks": sum(job.waiting_tasks for job in status.jobs),
        "lapses": status.jvm.get("lapses"),
    }


class _Statuses:
    """Cache of the status, filled by one thread, as each thread opens a connection to the JVM."""

    def __init__(self, status: Callable[[], SchedulerStatus]) -> None:
        self._status = status
        self._worker = Worker("decima-dashboard-status")
        self._lock = threading.Lock()
        self._newest: Future[bytes] | None = None
        self._asked_s = 0.0

    def json(self) -> bytes:
        """The newest, as text; any error of the status is raised, TimeoutError if it is late."""
        with self._lock:
            newest, now_s = self._newest, time.monotonic()
            if newest is None or (newest.done() and now_s - self._asked_s > _FRESH_S):
                newest = self._newest = self._worker.submit(self._text)
                self._asked_s = now_s
        return newest.result(timeout=_PATIENCE_S)

    def close(self) -> None:
        self._worker.close()

    def _text(self) -> bytes:
        return json.dumps(content(self._status()), allow_nan=False).encode()


class _Server(ThreadingTCPServer):
    """One thread for each connection; none is waited for."""

    # Not an `HTTPServer`: that asks the name service for its own name.
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = _CONNECTIONS

    def __init__(
        self,
        port: int,
        statuses: _Statuses,
        page: bytes,
        policy: str,
        metrics: Callable[[], str] | None,
    ) -> None:
        self.metrics = metrics
        self.statuses = statuses
        self.page = page
        self.policy = policy
        self._places = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__((ADDRESS, port), _Handler)
        self.port = int(self.server_address[1])
        self.hosts = {f"{name}:{self.port}" for name in ("localhost", "127.0.0.1", "[::1]")}
        """names by which a browser may call this server"""

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        LOG.debug("live page: a connection failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """Handler of one request."""

    server: _Server
    timeout = 10.0
    """seconds for a request to come"""

    def do_GET(self) -> None:
        """The page, or the status; nothing else is there."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:
            # Another site whose name resolves here, so that its scripts could read the answers.
            self._answer(HTTPStatus.FORBIDDEN, b"forbidden: use http://localhost and the port\n")
        elif self.path == "/":
            self._answer(HTTPStatus.OK, self.server.page, "text/html")
        elif self.path == "/status.json":
            try:
                text = self.server.statuses.json()
            except Exception as error:  # noqa: BLE001 - any error: the page shows that it waits
                LOG.debug("no status: %r", error)
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"no status\n")
            else:
                self._answer(HTTPStatus.OK, text, "application/json")
        elif self.path == "/metrics" and self.server.metrics is not None:
            self._answer(HTTPStatus.OK, self.server.metrics().encode(), "text/plain")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"not found\n")

    do_HEAD = do_GET  # noqa: N815 - the library looks for this name

    def _answer(self, code: HTTPStatus, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", f"{self.server.policy}; frame-ancestors 'none'")
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer an error with one line; the library's page would repeat the request."""
        status = HTTPStatus(code)
        if status == HTTPStatus.NOT_IMPLEMENTED:  # a method that this class has not
            status = HTTPStatus.METHOD_NOT_ALLOWED
        self.close_connection = True
        self._answer(status, f"{status.phrase.lower()}\n".encode())

    def version_string(self) -> str:
        """Hide the Python version."""
        return "decima"

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the library's name
        """Suppress access logs: a page requests the status every second."""
