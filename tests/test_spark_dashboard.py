"""The live page's server, with a status made by hand: what it answers, and what it does not."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import pytest

from decima.spark import AttachError, JobStatus, Scheduler, SchedulerStatus
from decima.spark import dashboard as module
from decima.spark.dashboard import SHOWN_JOBS, content, serve
from decima.spark.status import read_status
from tests.jvm import Talk
from tests.live import info, report, started, task_set
from tests.pages import live_status
from tests.spark_work import until

SECURITY = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Told:
    """A status that a test changes, and how often it was asked for."""

    def __init__(self) -> None:
        self.now: Any = live_status()
        self.asked = 0

    def __call__(self) -> SchedulerStatus:
        self.asked += 1
        status = self.now() if callable(self.now) else self.now
        assert isinstance(status, SchedulerStatus)
        return status


@contextmanager
def served(told: Any) -> Iterator[int]:
    url, stop = serve(told, 0)
    try:
        yield int(url.rsplit(":", 1)[1].strip("/"))
    finally:
        stop()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def port(told: Told) -> Iterator[int]:
    with served(told) as open_port:
        yield open_port


def ask(
    port: int, path: str = "/status.json", method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Code, headers by their lower-case names, body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


# --- what it answers -----------------------------------------------------------------------------


def test_the_status_is_told_as_json(port: int, told: Told) -> None:
    status = json.loads(ask(port)[2])
    assert status == content(told.now)
    assert [(job["name"], job["held"], job["limit"]) for job in status["jobs"]] == [
        ("nightly", 5, 6), ("report", 1, 1), ("late", 0, None)]  # fmt: skip
    expected = {
        "format": "decima-status", "version": 1, "held": 6, "slots": 8, "queue": 1,
        "waiting_tasks": 14, "lapses": 2, "fallbacks": 1, "decisions_per_s": 3.5,
    }  # fmt: skip
    assert {name: status[name] for name in expected} == expected


def test_many_who_ask_cost_one_question(
    port: int, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FRESH_S", 60.0)
    assert {ask(port)[2] for _ in range(5)} == {ask(port)[2]}
    assert told.asked == 1


@pytest.mark.parametrize(
    ("path", "code", "kind"),
    [
        ("/", 200, "text/html; charset=utf-8"),
        ("/status.json", 200, "application/json; charset=utf-8"),
        *((path, 404, "text/plain; charset=utf-8")
          for path in ("/no", "/status.json/", "/?x", "/../etc/passwd", "*")),
    ],
)  # fmt: skip
def test_every_answer_has_the_headers_that_protect_it(
    port: int, path: str, code: int, kind: str
) -> None:
    """The page is one file that may only ask its own server; nothing else is there."""
    status, headers, body = ask(port, path)
    assert (status, headers["content-type"]) == (code, kind)
    assert {name: headers[name] for name in SECURITY} == SECURITY
    policy = headers["content-security-policy"]
    for rule in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"):
        assert rule in policy
    assert "unsafe" not in policy
    assert "access-control-allow-origin" not in headers
    assert "Python" not in headers["server"]
    assert not re.search("https?://", body.decode())


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "<b>"])
def test_nothing_can_be_changed(port: int, told: Told, method: str) -> None:
    code, headers, body = ask(port, "/status.json", method)
    assert (code, headers["allow"], body) == (405, "GET, HEAD", b"method not allowed\n")
    assert told.asked == 0


def test_only_names_of_this_machine_are_answered(port: int, told: Told) -> None:
    """Another name that leads here is another site's, whose scripts could read the answer."""
    good = [f"127.0.0.1:{port}", f"localhost:{port}", f"LocalHost:{port}", f"[::1]:{port}"]
    bad = ["evil.example", f"evil.example:{port}", "localhost", f"localhost:{port + 1}",
           f"127.0.0.1:{port}@evil.example", f"localhost.evil.example:{port}", ""]  # fmt: skip
    assert {host: ask(port, Host=host)[0] for host in good} == dict.fromkeys(good, 200)
    told.asked = 0
    for path in ("/", "/status.json", "/no"):
        assert {host: ask(port, path, Host=host)[0] for host in bad} == dict.fromkeys(bad, 403)
    assert told.asked == 0


def test_a_request_without_or_with_two_names_is_refused(port: int) -> None:
    for names in ("", f"Host: localhost:{port}\r\nHost: evil.example\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\n{names}\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.0 403 ")


def test_it_is_heard_on_this_machine_only(port: int) -> None:
    with socket.socket() as other:  # the port is free on another address of the machine
        other.bind(("127.0.0.2", port))


def test_names_that_nobody_can_read_are_cut() -> None:
    """Of any length, in any number, with halves of characters: the answer stays small JSON."""
    job = JobStatus("k", "\ud800<b>" + "x" * 100_000, 1, 1, 0, 1.0, None)
    status = content(replace(live_status(), jobs=(job,) * (SHOWN_JOBS + 3)))
    assert (len(status["jobs"]), status["jobs_left_out"]) == (SHOWN_JOBS, 3)
    assert len(json.dumps(status)) < 400 * SHOWN_JOBS


# --- what goes wrong -----------------------------------------------------------------------------


def test_a_status_that_fails_is_no_status(port: int, told: Told) -> None:
    def fail() -> None:
        raise RuntimeError("secret")

    told.now = fail
    code, _, body = ask(port)
    assert (code, body) == (503, b"no status\n")


def test_a_status_that_hangs_hangs_nothing(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks hears so, the page still comes, and stopping waits for nothing."""
    monkeypatch.setattr(module, "_PATIENCE_S", 0.1)
    let_go = threading.Event()

    def hang() -> SchedulerStatus:
        let_go.wait(30)
        return live_status()

    told.now = hang
    with served(told) as port:
        assert [ask(port)[0], ask(port)[0], ask(port, "/")[0]] == [503, 503, 200]
        assert told.asked == 1
        began = time.monotonic()
    assert time.monotonic() - began < 2.0
    let_go.set()


def test_connections_that_say_nothing_keep_nobody_out(port: int) -> None:
    """Up to a bound, beyond which they are closed; and room again when they are gone."""
    silent = [socket.create_connection(("127.0.0.1", port), timeout=3) for _ in range(20)]
    assert ask(port)[0] == 200
    silent += [socket.create_connection(("127.0.0.1", port), timeout=3) for _ in range(20)]
    assert [connection.recv(1) for connection in silent[32:]] == [b""] * 8
    for idle in silent:
        idle.close()
    assert until(lambda: answered(port))


def answered(port: int) -> bool:
    try:
        return ask(port)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_stopping_frees_the_port_and_ends_the_threads() -> None:
    before = set(threading.enumerate())
    with served(live_status) as port:
        assert ask(port)[0] == 200
    with pytest.raises(OSError, match="refused"):
        ask(port)
    assert until(lambda: set(threading.enumerate()) <= before)


# --- what a scheduler tells ----------------------------------------------------------------------


@pytest.mark.real_spark
def test_jobs_are_told_by_arrival_with_what_they_hold_and_wait_for(jvm: Talk) -> None:
    """A job that is served, or has no task to start, waits no more."""
    begun = [
        started(number, info(number, tasks), time_ms=time_ms, decima_job=name)
        for number, time_ms, tasks, name in ((0, 1_000, 4, "old"), (1, 3_000, 9, "new"),
                                             (2, 2_000, 1, "planned"))
    ]  # fmt: skip
    sets = [task_set(1, 9, 2, 0, "job new"), task_set(0, 4, 1, 2, "job old"),
            task_set(0, 4, 0, 1, "job old", attempt=1, is_zombie=True)]  # fmt: skip
    served = [task_set(1, 9, 2, 1, "job new"), sets[1]]
    reports = [
        report(*(begun if time_ms == 4_000 else []), time_ms=time_ms, sets=rows)
        for time_ms, rows in ((4_000, sets), (6_000, sets), (7_000, served), (8_000, sets))
    ]
    answer = jvm.ask({"statuses": reports, "limits": {"job old": 3}})
    whole: dict[str, Any] = {"mode": "exact", "policy": "p", "choice": None, "is_attached": True,
             "ended_because": None, "is_ready": True, "plans": 4, "fallbacks": 0,
             "last_fault": None, "starved": 0, "plan_ms_median": 1.0, "plan_ms_p90": 1.0,
             "prior_hits": 0, "prior_misses": 0, "jvm": {}}  # fmt: skip
    told = [read_status(json.dumps({**whole, **entry})) for entry in answer]
    assert told[1].jobs == (
        JobStatus("job old", "old", 3, 3, 1, 5.0, None),
        JobStatus("job planned", "planned", 0, None, 0, 4.0, None),
        JobStatus("job new", "new", 0, None, 7, 3.0, 2.0),
    )
    assert [status.jobs[2].unserved_s for status in told] == [0.0, 2.0, None, 0.0]
    assert told[0].decisions_per_s > 0


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", "9" * 5000, '{"jobs": 3}', "[" * 10**5])
def test_a_damaged_status_of_the_jvm_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(AttachError, match=r"^status of the JVM.*$"):
        read_status(text)


class Attachment:
    """The JVM's end, which says what a test tells it to."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def status(self) -> str:
        return json.dumps({**asdict(self._told()), "choice": None})

    def detach(self) -> None:
        """As `Attachment.java`."""


def test_a_scheduler_serves_its_page_until_it_is_detached(told: Told) -> None:
    """While somebody keeps a connection open and reads nothing; one that let go by itself says
    why, until `detach`.
    """
    scheduler = Scheduler(Attachment(told), "mine", None)
    scheduler.serve_dashboard(0)
    port = int(str(scheduler.dashboard_url).rsplit(":", 1)[1].strip("/"))
    with socket.create_connection(("127.0.0.1", port)):
        assert (json.loads(ask(port)[2])["policy"], scheduler.is_attached) == ("mine", True)
        told.now = replace(told.now, is_attached=False, ended_because="it failed")
        assert until(lambda: json.loads(ask(port)[2])["ended_because"] == "it failed")
        scheduler.detach()
    assert scheduler.dashboard_url is None
    assert not answered(port)
