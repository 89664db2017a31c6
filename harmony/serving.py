"""`harmony serve`: a policy answers over HTTP where to place a job.

POST /place takes the description of `harmony.placing.place` and the header `X-Harmony-Secret`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections import OrderedDict
from collections.abc import Callable
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from decima.rl.errors import StudyError
from harmony.learned import check_network
from harmony.measured import measured
from harmony.models import load_model
from harmony.placing import place
from traces.files.reading import parse_json

SECRET_HEADER = "X-Harmony-Secret"  # noqa: S105 -- the header's name
DEADLINE_S = 10.0
"""from connection to answer; then the connection is closed"""
MOST_BYTES = 2**20
"""of a request's body"""
MOST_CONNECTIONS = 32
"""that have shown the secret, and as many others: beyond it the oldest of these is closed"""

Answer = Callable[[Any], dict[str, Any]]


def server_of(
    model: Path, secret: bytes, host: str, port: int, tls: ssl.SSLContext | None = None
) -> PlacementServer:
    """Return a server, listening, that answers by a model.

    Raises:
        StudyError: the model is none, or the address is not free.
    """
    network, config, _ = load_model(model)
    network.eval()
    check_network(config.size.models, config.size.gpu_types, config.cluster)
    lock = threading.Lock()

    def answer(description: Any) -> dict[str, Any]:
        with lock:
            return place(network.policy, config.cluster, description)

    # A first answer, so that the kernels are compiled before a client waits for one.
    names = [str(number) for number in range(config.cluster.servers)]
    first = measured(config.cluster.table_file).models[0]
    answer({"servers": names, "job": {"model": first, "count": {"workers": 1}}})
    try:
        return PlacementServer((host, port), answer, secret, tls)
    except OSError as fault:
        raise StudyError(f"{host}:{port}: cannot listen: {fault.strerror}") from fault


class PlacementServer(ThreadingHTTPServer):
    """HTTP server of one endpoint; a thread for each of a bounded number of connections."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        answer: Answer,
        secret: bytes,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answer = answer
        self.secret = secret
        self._tls = tls
        self._lock = threading.Lock()
        self._strangers: OrderedDict[int, socket.socket] = OrderedDict()
        """connections that have not shown the secret, the oldest first"""
        self._known: set[int] = set()
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; its thread makes the handshake, which may never come."""
        connection, address = super().get_request()
        if self._tls is not None:
            connection = self._tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread; idle ones do not keep others out."""
        with self._lock:
            self._strangers[id(request)] = request
            if len(self._strangers) > MOST_CONNECTIONS:
                _close(self._strangers.popitem(last=False)[1])
        super().process_request(request, client_address)

    def admit(self, connection: socket.socket) -> bool:
        """Note that a connection has shown the secret; return whether there is room for it."""
        with self._lock:
            self._strangers.pop(id(connection), None)
            if len(self._known) >= MOST_CONNECTIONS:
                return False
            self._known.add(id(connection))
            return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a connection, which is closed when its time is up."""
        timer = threading.Timer(DEADLINE_S, _close, [request])
        timer.daemon = True
        timer.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            with self._lock:
                self._strangers.pop(id(request), None)
                self._known.discard(id(request))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that broke off."""


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: PlacementServer
    server_version, sys_version = "harmony", ""

    def do_POST(self) -> None:
        """Answer one request."""
        status, content = self._answer()
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self) -> tuple[HTTPStatus, dict[str, Any]]:
        secret = self.headers.get(SECRET_HEADER, "").encode("latin-1", "replace")
        if not compare_digest(secret, self.server.secret):
            return HTTPStatus.FORBIDDEN, {"error": f"{SECRET_HEADER} is not the secret"}
        if not self.server.admit(self.connection):
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": "too many requests at a time"}
        if self.path != "/place":
            return HTTPStatus.NOT_FOUND, {"error": "there is POST /place"}
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            return HTTPStatus.LENGTH_REQUIRED, {"error": "Content-Length is needed"}
        if len(length) > 9 or int(length) > MOST_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"at most {MOST_BYTES} bytes"}
        try:
            description = parse_json(self.rfile.read(int(length)), "request", StudyError)
            return HTTPStatus.OK, self.server.answer(description)
        except StudyError as fault:
            return HTTPStatus.BAD_REQUEST, {"error": str(fault)}

    def log_message(self, *_: Any) -> None:
        """Log nothing: a scheduler asks often."""
