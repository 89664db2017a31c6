"""`harmony serve`: placements, the secret, and bounds on requests."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from decima.rl.errors import StudyError
from harmony import serving
from harmony.config import PAPER
from harmony.models import POLICY, new_network
from harmony.network import Size
from harmony.serving import (
    DEADLINE_S,
    MOST_CONNECTIONS,
    SECRET_HEADER,
    PlacementServer,
    place,
    server_of,
)
from harmony.training_config import TrainConfig
from tests.certificates import make_certificate, trusting
from tests.commands import raises_one_line, ran
from tests.studies import HARMONY
from traces.files.tls import tls_of

ROOT = Path(__file__).parents[1]
CONFIG = TrainConfig(size=Size(width=16, heads=2, layers=1))
SECRET = "0123456789abcdef"  # noqa: S105 -- of this test
NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlacementServer]:
    """A server of a policy that has learned nothing."""
    path = tmp_path_factory.mktemp("serve") / "model.safetensors"
    POLICY.save(path, CONFIG, new_network(CONFIG.size).state_dict(), {})
    with server_of(path, SECRET.encode(), "127.0.0.1", 0) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(
    server: PlacementServer, body: bytes, secret: str = SECRET, path: str = "/place"
) -> tuple[int, Any]:
    """Status and content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("POST", path, body, {SECRET_HEADER: secret})
    answer = connection.getresponse()
    reply = answer.status, json.loads(answer.read())
    connection.close()
    return reply


def secret_file(folder: Path) -> Path:
    path = folder / "secret"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


def described(**changes: Any) -> dict[str, Any]:
    """A cluster of three servers, of which the first two are full, and a job."""
    full = {"model": "MoE", "workers": ["a", "a"], "ps": []}
    running = [full, full | {"workers": ["b", "b"]}]
    job = {"model": "DLRM", "count": {"workers": 1, "ps": 1}}
    return {"servers": NAMES, "running": running, "job": job, **changes}


def test_a_job_goes_where_there_is_room(server: PlacementServer) -> None:
    """Its worker to the only server with a free GPU; its parameter server to any."""
    status, reply = ask(server, json.dumps(described()).encode())
    assert (status, reply["workers"]) == (200, ["c"])
    assert len(reply["ps"]) == 1
    for job, expected in (
        ({"model": "DLRM", "count": {"workers": 3}}, {"wait": True}),
        # One of two workers is placed, so one is to be.
        (
            {"model": "DLRM", "count": {"workers": 2}, "workers": ["c"]},
            {"workers": ["c"], "ps": []},
        ),
    ):
        assert ask(server, json.dumps(described(job=job)).encode()) == (200, expected)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"servers": []}, "a list `servers`"),
        ({"servers": ["a", "a", "b"]}, "servers are not all different"),
        ({"servers": ["a"]}, "1 servers: the policy is for at least 2"),
        ({"running": [3]}, "job 0 is no object with a model"),
        ({"job": {"model": "ResNet", "count": {"workers": 1}}}, "job 2 is a 'ResNet'"),
        ({"job": {"model": "MoE", "count": {"workers": 1.5}}}, "count of workers is 1.5"),
        ({"running": [{"model": "MoE", "workers": ["d"]}]}, "'d' is no server"),
        ({"running": [{"model": "MoE", "workers": ["a"] * 3}]}, "server 'a' has no room"),
    ],
)
def test_a_description_that_contradicts_itself_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    with raises_one_line(StudyError, match=words):
        place(new_network(CONFIG.size).policy, PAPER, described(**changes))


def test_without_the_secret_a_request_is_forbidden(server: PlacementServer) -> None:
    """Before the body or the path is looked at."""
    for secret in ("", SECRET[:-1], SECRET + "x", "\u00fc" * 16):
        assert ask(server, b"{", secret)[0] == 403
        assert ask(server, b"{", secret, "/other")[0] == 403
    assert ask(server, b"{", path="/other")[0] == 404


def test_what_is_no_description_is_refused(server: PlacementServer) -> None:
    """Broken JSON, an absurd length, none."""
    for body in (b"", b"{", b"[]", b'{"servers": NaN}', b"[" * 9_999):
        status, reply = ask(server, body)
        assert (status, set(reply)) == (400, {"error"})
    head = f"POST /place HTTP/1.0\r\n{SECRET_HEADER}: {SECRET}\r\n"
    for line, status in (
        ("", 411),
        ("Content-Length: 9999999\r\n", 413),
        ("Content-Length: -1\r\n", 411),
    ):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as raw:
            raw.sendall((head + line + "\r\n").encode())
            assert raw.recv(100).split()[1] == str(status).encode()


def test_a_request_that_never_ends_is_cut(
    server: PlacementServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And others are answered."""
    monkeypatch.setattr(serving, "DEADLINE_S", 0.2)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as raw:
        raw.sendall(b"POST /place HTTP/1.0\r\n")
        assert raw.recv(100) == b""
    monkeypatch.undo()
    assert ask(server, json.dumps(described()).encode())[0] == 200


def test_idle_connections_do_not_keep_others_out(server: PlacementServer) -> None:
    """Twice as many as there are places: the oldest is closed for each that is new."""
    place = "127.0.0.1", server.server_port
    idle = [socket.create_connection(place, timeout=60) for _ in range(2 * MOST_CONNECTIONS)]
    try:
        began_s = time.monotonic()
        assert ask(server, json.dumps(described()).encode())[0] == 200
        assert time.monotonic() - began_s < DEADLINE_S / 2
        assert idle[0].recv(100) == b""
    finally:
        for connection in idle:
            connection.close()


def test_requests_with_the_secret_are_bounded_too(
    server: PlacementServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waits for its body has the only place."""
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 1)
    head = f"POST /place HTTP/1.0\r\n{SECRET_HEADER}: {SECRET}\r\nContent-Length: 9\r\n\r\n"
    reply: tuple[int, Any] = (200, None)
    for _ in range(100):
        # It has the place once its head is read; before that, a newer connection may take it.
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as raw:
            raw.sendall(head.encode())
            time.sleep(0.05)
            reply = ask(server, json.dumps(described()).encode())
        if reply[0] != 200:
            break
    assert reply == (503, {"error": "too many requests at a time"})


def test_beyond_loopback_the_secret_is_encrypted(tmp_path: Path) -> None:
    """Without a certificate the command refuses; with one, idle handshakes hold up nobody."""
    secret, model = secret_file(tmp_path), tmp_path / "model.safetensors"
    POLICY.save(model, CONFIG, new_network(CONFIG.size).state_dict(), {})
    for host in ("0.0.0.0", "::", "example.org", ""):  # noqa: S104 - refused
        result = HARMONY.run("serve", str(model), "--secret-file", str(secret), "--host", host)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "beyond loopback, --tls-certificate is needed" in result.stderr
    certificate, key = make_certificate(tmp_path)
    tls = tls_of("0.0.0.0", certificate, key)  # noqa: S104
    with server_of(model, SECRET.encode(), "127.0.0.1", 0, tls) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = "127.0.0.1", server.server_port
        with socket.create_connection(place, timeout=60):
            connection = http.client.HTTPSConnection(
                *place, timeout=60, context=trusting(certificate)
            )
            body = json.dumps(described())
            connection.request("POST", "/place", body, {SECRET_HEADER: SECRET})
            answer = connection.getresponse()
            assert (answer.status, json.load(answer)["workers"]) == (200, ["c"])
            connection.close()
        server.shutdown()


@pytest.mark.parametrize("options", [("certificate",), ("certificate", "secret"), (None, "key")])
def test_a_certificate_that_cannot_be_used_is_one_line(
    tmp_path: Path, options: tuple[str | None, ...]
) -> None:
    """Without its key, with what is no key, and a key alone."""
    certificate, key = make_certificate(tmp_path)
    secret = secret_file(tmp_path)
    paths = {"certificate": certificate, "key": key, "secret": secret}
    arguments = ["serve", str(certificate), "--secret-file", str(secret)]
    for option, name in zip(("--tls-certificate", "--tls-key"), options, strict=False):
        arguments += [] if name is None else [option, str(paths[name])]
    result = HARMONY.run(*arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "certificate" in result.stderr


# --- the scheduler extender of Kubernetes --------------------------------------------------------


def pod(job: str, role: str, node: str | None = None) -> dict[str, Any]:
    """One task of a job of one worker and one parameter server, as the API has it."""
    labels = {"job": job, "model": "DLRM", "role": role, "workers": "1", "ps": "1"}
    spec = {} if node is None else {"nodeName": node}
    return {"metadata": {"labels": {f"harmony/{k}": v for k, v in labels.items()}}, "spec": spec}


class MockedApi(BaseHTTPRequestHandler):
    """The pods of a cluster: servers a and b are full."""

    def do_GET(self) -> None:
        items = [pod(f"j{k}", "worker", "ab"[k % 2]) for k in range(4)]
        body = json.dumps({"items": items}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("content", [None, "\n"])
def test_the_extender_needs_a_secret_before_it_listens(tmp_path: Path, content: str | None) -> None:
    """One line that names the file, and no server."""
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_text(content)
    command = ("examples/kubernetes_extender.py", "--secret-file", secret, "--port", 0)
    ended = ran(*command, folder=ROOT)
    assert ended.returncode == 2
    assert f"--secret-file {secret}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "listening" not in ended.stdout


def test_the_extender_scores_the_node_of_a_pod(server: PlacementServer, tmp_path: Path) -> None:
    """Against a mocked API: the worker of a new job belongs on c, which has free GPUs."""
    secret = secret_file(tmp_path)
    with HTTPServer(("127.0.0.1", 0), MockedApi) as api:
        threading.Thread(target=api.serve_forever, daemon=True).start()
        arguments = {
            "--api": f"http://127.0.0.1:{api.server_port}",
            "--harmony": f"http://127.0.0.1:{server.server_port}",
            "--secret-file": str(secret),
            "--port": "0",
        }
        command = [sys.executable, "examples/kubernetes_extender.py"]
        command += [part for pair in arguments.items() for part in pair]
        with subprocess.Popen(  # noqa: S603 - our own example
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline().split()[-1])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            asked = {"pod": pod("new", "worker"), "nodenames": NAMES}
            connection.request("POST", "/prioritize", json.dumps(asked))
            scores = json.loads(connection.getresponse().read())
            process.terminate()
        api.shutdown()
    assert {score["host"]: score["score"] for score in scores} == {"a": 0, "b": 0, "c": 10}
