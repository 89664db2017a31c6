"""Logs of History Servers and object stores, copied."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from decima.spark.jar import spark_jars
from tests.commands import decima, refused, succeeded
from tests.spark_applications import free_port
from tests.spark_work import until
from traces import load_trace
from traces.errors import TraceError
from traces.spark_log import elsewhere, read_spark_logs
from traces.spark_log.elsewhere import Selection, copy_logs, parse_since

RECORDED = Path(__file__).parent / "data" / "spark_logs"
LISTED = b'[{"id": "app-2", "attempts": [{"completed": true}]}, {"id": "app-1"}]'
Answer = Callable[[BaseHTTPRequestHandler], None]


def archive(name: str, text: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr(name, text)
    return content.getvalue()


def send(
    handler: BaseHTTPRequestHandler,
    content: bytes,
    status: int = 200,
    location: str | None = None,
    length: int | None = None,
) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content) if length is None else length))
    if location is not None:
        handler.send_header("Location", location)
    handler.end_headers()
    handler.wfile.write(content)


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """Serve on loopback; yields the address and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def history(handler: BaseHTTPRequestHandler) -> None:
    """Answer as a History Server with two applications does."""
    path = urlsplit(handler.path).path
    if path == "/api/v1/applications":
        send(handler, LISTED)
    elif path.endswith("/logs"):
        name = path.split("/")[-2]
        send(handler, archive(name, f"log of {name}"))
    else:
        send(handler, b"no such page", 404)


def test_all_applications_of_a_history_server_are_copied(tmp_path: Path) -> None:
    shown = []
    with serving(history) as (address, asked):
        copy_logs(address, tmp_path, progress=lambda *step: shown.append(step))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app-1.zip", "app-2.zip"]
    with zipfile.ZipFile(tmp_path / "app-1.zip") as content:
        assert content.read("app-1") == b"log of app-1"
    assert shown == [("app-2", 1, 2), ("app-1", 2, 2)]
    assert parse_qs(urlsplit(asked[0]).query)["status"] == ["completed"]


def test_a_selection_of_applications_asks_for_these_alone(tmp_path: Path) -> None:
    with serving(history) as (address, asked):
        copy_logs(f"{address}/", tmp_path, Selection(applications=("app-1",)))
        copy_logs(address, tmp_path, Selection(since=timedelta(days=7)))
    assert asked[0] == "/api/v1/applications/app-1/logs"
    assert "minEndDate" in asked[1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda to: send(to, b"[]"), ["no application has ended"]),
        (lambda to: send(to, b"<html>login</html>"), ["not JSON"]),
        (lambda to: send(to, b'{"applications": []}'), ["no list of applications"]),
        (lambda to: send(to, b'[{"name": "without an id"}]'), ["no id of an application"]),
        (lambda to: send(to, b'[{"id": "../../etc/passwd"}]'), ["'../../etc/passwd'"]),
        (lambda to: send(to, b"", 302, "http://other/login"), ["redirects", "other/login"]),
        (lambda to: send(to, b"", 401), ["401", "login"]),
        (lambda to: send(to, b"", 500), ["500"]),
        (lambda to: send(to, b"short", length=100), ["not JSON"]),
        (lambda to: send(to, b"PK broken" if "logs" in to.path else LISTED), ["no zip archive"]),
        (lambda to: send(to, LISTED, 404 if "logs" in to.path else 200), ["404", "app-1"]),
    ],
)
def test_faults_of_a_server_are_one_line(answer: Answer, words: list[str], tmp_path: Path) -> None:
    with serving(answer) as (address, _), pytest.raises(TraceError) as fault:
        copy_logs(address, tmp_path)
    assert "\n" not in str(fault.value)
    assert all(word in str(fault.value) for word in [address, *words])


def test_a_server_that_hangs_or_never_ends_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    monkeypatch.setattr(elsewhere, "SILENCE_S", 0.1)

    def hang(_: BaseHTTPRequestHandler) -> None:
        may_end.wait(10)

    with serving(hang) as (address, _):
        with pytest.raises(TraceError, match=r"no answer for 0\.1 s"):
            copy_logs(address, tmp_path)
        may_end.set()
    monkeypatch.setattr(elsewhere, "MAX_BYTES", 100)
    with serving(history) as (address, _):
        with pytest.raises(TraceError, match="more than 100 bytes"):
            copy_logs(address, tmp_path)
        monkeypatch.setattr(elsewhere, "MAX_APPLICATIONS", 1)
        with pytest.raises(TraceError, match="more than 1 "):
            copy_logs(address, tmp_path)


def test_logs_that_have_gone_since_they_were_listed_are_named(tmp_path: Path) -> None:
    """Of those that were asked for by id, a missing one is an error."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if "app-2" in handler.path:
            send(handler, b"", 404)
        else:
            history(handler)

    with serving(answer) as (address, _):
        assert copy_logs(address, tmp_path) == ["app-2"]
        assert [path.name for path in tmp_path.iterdir()] == ["app-1.zip"]
        with pytest.raises(TraceError, match="404"):
            copy_logs(address, tmp_path, Selection(applications=("app-2",)))


def test_a_folder_of_an_object_store_is_copied(tmp_path: Path) -> None:
    store, target = tmp_path / "store", tmp_path / "target"
    (store / "eventlog_v2_app").mkdir(parents=True)
    target.mkdir()
    (store / "eventlog_v2_app" / "events_1_app").write_text("rolled")
    (store / "app").write_text("log")
    copy_logs(f"file://{store}", target)
    assert (target / "eventlog_v2_app" / "events_1_app").read_text() == "rolled"
    assert (target / "app").read_text() == "log"
    copy_logs(f"file://{store}/app", target / "eventlog_v2_app")
    assert (target / "eventlog_v2_app" / "app").read_text() == "log"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("http://[::1", ["http://[::1", "IPv6"]),
        ("http://h..st:1", ["http://h..st:1"]),
        ("s4://user:wo/rd?@bucket/logs", ["s4://...@bucket/logs", "unknown kind"]),
        ("file:///no/such/folder", ["/no/such/folder", "no such"]),
        ("http://user:word@host:18080", ["http://...@host:18080", "http://HOST:PORT"]),
        ("s4://user:word@bucket/logs?key=word", ["s4://...@bucket/logs", "unknown kind"]),
        ("file:///no/such?key=word", ["file:///no/such"]),
    ],
)
def test_addresses_that_cannot_be_read(place: str, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(TraceError) as fault:
        copy_logs(place, tmp_path)
    assert all(word in str(fault.value) for word in words)
    assert "user" not in str(fault.value)
    assert "key=" not in str(fault.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("text", "hours"), [("12h", 12), ("7d", 168), ("2w", 336)])
def test_times_before_now(text: str, hours: int) -> None:
    assert parse_since(text) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["7", "d", "-1d", "1y", "1.5d", "999999d"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="7d"):
        parse_since(text)


def test_a_replay_of_a_history_servers_logs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Copies are gone when the command has ended, and also if it fails."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    log = next((RECORDED / "spark-4.0-default").iterdir())
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for path in sorted(log.rglob("*")) if log.is_dir() else [log]:
            file.write(path, path.relative_to(log.parent))

    def answer(handler: BaseHTTPRequestHandler) -> None:
        send(handler, LISTED if "logs" not in handler.path else content.getvalue())

    with serving(answer) as (address, asked):
        done = succeeded(decima("replay", address, "--application", "app-1", "--draws", "1"))
        assert "revenue by region" in done.output
        page = tmp_path.parent / "page.html"
        monkeypatch.setattr(sys, "argv", ["decima", "whatif", "s3://key:secret@bucket", address])
        options = ["--application", "app-1", "--draws", "2", "--sequences", "1"]
        succeeded(decima("whatif", address, *options, "--policies", "fifo", "--report", page))
        assert f"What if: {address}" in page.read_text()
        assert "s3://...@bucket" in page.read_text()
        assert "secret" not in page.read_text()
        imported = tmp_path.parent / "imported.parquet"
        succeeded(
            decima("traces", "import", "spark", address, "--application", "app-1", "-o", imported)
        )
        assert load_trace(str(imported)).job_names == read_spark_logs([log])[0].job_names
        each = decima("whatif", address, "--application", "app-1", "--each")
        assert "1 log: 1 used (4 jobs), 0 not" in succeeded(each).stdout
        assert len(asked) == 4
        refused(decima("whatif", address, "--application", "../odd"), "../odd")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["logs", "--since", "7d"], "History Server"),
        (["httpd", "--application", "app-1"], "History Server"),
        (["http://127.0.0.1:1", "--since", "7x"], "7x"),
        (["http://127.0.0.1:1", "--since", "7d", "--application", "app-1"], "not both"),
        (["http://127.0.0.1:1"], "cannot connect"),
    ],
)
def test_a_command_refuses_what_it_cannot_copy(
    options: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    Path("httpd").mkdir()
    for command in (["whatif", "--json"], ["traces", "import", "spark", "-o"]):
        refused(decima(*command, "out.parquet", *options), words)
        assert not Path("out.parquet").exists()


@pytest.mark.slow
@pytest.mark.real_spark
def test_a_real_history_server(tmp_path: Path) -> None:
    logs, copies = tmp_path / "logs", tmp_path / "copies"
    logs.mkdir()
    copies.mkdir()
    for name in ("spark-4.0-default", "spark-4.3-zstd"):
        shutil.copytree(RECORDED / name, logs, dirs_exist_ok=True)
    port = free_port()
    settings = {
        "spark.history.fs.logDirectory": logs.as_uri(),
        "spark.history.ui.port": str(port),
        "spark.history.store.maxDiskUsage": "100m",
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    program = "org.apache.spark.deploy.history.HistoryServer"
    server = subprocess.Popen(  # noqa: S603 - Spark's own class
        ["java", "-Xmx512m", *options, "-cp", f"{spark_jars()}/*", program],  # noqa: S607
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def are_copied() -> bool:
        assert server.poll() is None
        try:
            return copy_logs(f"http://127.0.0.1:{port}", copies) == []
        except TraceError:  # not up, or it has not looked at the folder yet
            return False

    try:
        assert until(are_copied, 120)
    finally:
        server.kill()
        server.wait()
    copied, _ = read_spark_logs([copies])
    recorded, _ = read_spark_logs([logs])
    assert {job.name for job in copied.jobs} == {job.name for job in recorded.jobs}
    assert copied.jobs
