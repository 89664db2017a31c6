"""`harmony serve`: a policy answers over HTTP where to place a job.

POST /place takes a cluster as JSON, as `place` describes, and the header `X-Harmony-Secret`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.study.lockstep import ONLY
from harmony.clusters import Clusters
from harmony.config import MAX_SERVERS, Config
from harmony.jobs import job_sequence
from harmony.measured import measured
from harmony.models import check_network, load_model, log_probabilities
from harmony.network import PolicyNetwork
from harmony.tables import PS, WORKER
from harmony.tokens import see
from traces.files.reading import parse_json

SECRET_HEADER = "X-Harmony-Secret"  # noqa: S105 -- the header's name
DEADLINE_S = 10.0
"""from connection to answer; then the connection is closed"""
MOST_BYTES = 2**20
"""of a request's body"""
MOST_CONNECTIONS = 32
"""that have shown the secret, and as many others: beyond it the oldest of these is closed"""

Answer = Callable[[Any], dict[str, Any]]
_EPOCHS = 1e9
_KINDS = {"workers": WORKER, "ps": PS}
_MOST_RUNNING = 1_000


def server_of(
    model: Path, secret: bytes, host: str, port: int, tls: ssl.SSLContext | None = None
) -> PlacementServer:
    """Return a server, listening, that answers by a model.

    Raises StudyError if the model is none, or the address is not free.
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


def place(network: PolicyNetwork, config: Config, description: Any) -> dict[str, Any]:
    """Return the servers of a job's tasks: `{"workers": [names], "ps": [names]}`.

    Where the cluster has no room it is `{"wait": true}`.

    Args:
        network: the policy.
        config: the kind of cluster; all servers are alike but for types of GPU.
        description: an object with `servers` (their names), `job` and `running` (jobs). A job has
            `model`, `workers` and `ps` (names of the servers of its tasks); the one to place has
            `count`, how many of each it needs, and in `workers` and `ps` those that are placed.
            Where the cluster has several types of GPU, `gpus` has that of each server by its
            name, and a job may have `gpu`, the type that it needs.

    Raises StudyError if the description contradicts itself, or the cluster.
    """
    names = _names(description)
    jobs = [_Job(job, number) for number, job in enumerate(_jobs(description))]
    gpus = description.get("gpus")
    types = dict.fromkeys(names, 0)
    if config.gpu_types:
        if not isinstance(gpus, dict) or set(gpus) != set(names):
            raise StudyError("an object `gpus` is needed, with the type of each server's GPUs")
        types = {name: config.gpu_number(gpus[name]) for name in names}
    elif gpus is not None:
        raise StudyError("gpus: the policy was trained for GPUs that are all alike")
    # Servers of one type follow each other, as in a configuration.
    servers = sorted(names, key=lambda name: types[name])
    cluster = _cluster(config, list(types.values()))
    rows = [(0.0, job.model, job.count["workers"], job.count["ps"], _EPOCHS) for job in jobs]
    exclusive, gpu = [job.exclusive for job in jobs], [job.gpu for job in jobs]
    clusters = Clusters(cluster, job_sequence(cluster, rows, exclusive, gpu))
    for number, job in enumerate(jobs):
        if number == len(jobs) - 1 and clusters.state.current[0] != number:
            return {"wait": True}
        for kind, name in job.placed:
            if name not in servers:
                raise StudyError(f"job {number}: {name!r:.40} is no server")
            action = _KINDS[kind] * len(servers) + servers.index(name)
            if clusters.state.current[0] != number or not clusters.masks(ONLY)[0, action]:
                raise StudyError(f"job {number}: server {name!r:.40} has no room for what is there")
            clusters.step(ONLY, np.array([action], np.int32))
    # What is left of the job: the likeliest server for each task.
    chosen: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    while not clusters.over[0]:
        action = int(log_probabilities(network, see(clusters, ONLY))[0].argmax())
        kind_code, server = divmod(action, len(servers))
        clusters.step(ONLY, np.array([action], np.int32))
        chosen["ps" if kind_code == PS else "workers"].append(servers[server])
    return dict(chosen)


class _Job:
    """A job of the description, checked."""

    def __init__(self, job: dict[str, Any], number: int) -> None:
        self.model = str(job["model"])
        self.exclusive = job.get("exclusive") is True
        self.gpu = job.get("gpu", "")
        if not isinstance(self.gpu, str):
            raise StudyError(f"job {number}: gpu is {self.gpu!r:.40}: the name of a type is needed")
        counts = job.get("count", {})
        if not isinstance(counts, dict):
            raise StudyError(f"job {number}: count is no object")
        self.count: dict[str, int] = {}
        """tasks of each kind"""
        self.placed: list[tuple[str, Any]] = []
        """kind and server of each task that is placed"""
        for kind in _KINDS:
            names = job.get(kind, [])
            if not isinstance(names, list):
                raise StudyError(f"job {number}: {kind} is no list of servers")
            count = counts.get(kind, len(names))
            if type(count) is not int or count < len(names):
                raise StudyError(f"job {number}: count of {kind} is {count!r:.40}")
            self.count[kind] = count
            self.placed += [(kind, name) for name in names]


def _cluster(config: Config, types: list[int]) -> Config:
    """Return the cluster with servers of these types, for one interval, in which no job ends."""
    servers, least = len(types), -(-config.max_workers // config.gpus)
    if servers < least:
        raise StudyError(f"{servers} servers: the policy is for at least {least}")
    named = tuple(
        f"{gpu.name}:{types.count(number)}:{gpu.speed}"
        for number, gpu in enumerate(config.gpu_table)
    )
    return replace(
        config.arriving("uniform"),
        servers=servers,
        gpu_types=named if config.gpu_types else (),
        gpu_required_share=0.0,
        jobs=_MOST_RUNNING + 1,
        jobs_file="",
        max_intervals=1,
    )


def _names(description: Any) -> list[str]:
    """Return the names of the servers."""
    names = description.get("servers") if isinstance(description, dict) else None
    if not isinstance(names, list) or not 1 <= len(names) <= MAX_SERVERS:
        raise StudyError(f"a list `servers` of 1 to {MAX_SERVERS} names is needed")
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise StudyError("servers are not all different names")
    return names


def _jobs(description: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the jobs that run, then the one to place."""
    running = description.get("running", [])
    if not isinstance(running, list) or len(running) > _MOST_RUNNING:
        raise StudyError(f"running is no list of at most {_MOST_RUNNING} jobs")
    jobs = [*running, description.get("job")]
    for number, job in enumerate(jobs):
        if not isinstance(job, dict) or not isinstance(job.get("model"), str):
            raise StudyError(f"job {number} is no object with a model")
    return jobs
