"""`Answers`: what the planner in the JVM asks of Python, over one connection (`Worker.java`).

A connection is a policy's only way in: one that hangs, raises or answers nonsense costs its round,
which strict fair then decides.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from decima.policy import Policy
from decima.policy_names import decides_in_jvm
from decima.spark.auto import Auto, News
from decima.spark.loading import PolicyFor, ready_policy
from decima.spark.settings import AttachError
from decima.spark.tables import LiveTables
from decima.spark.worker import Worker
from spark_sim import IllegalActionError
from traces.arrays import TraceArrays
from traces.files.reading import parse_object
from traces.loopback import ADDRESS

LOG = logging.getLogger("decima.spark")

_MAX_BYTES = 1 << 28
"""longest message"""

Message = Mapping[str, Any]


class PoliciesByName:
    """Factories of policies; one that is not there yet is loaded in a thread of its own."""

    def __init__(self, ready: Mapping[str, PolicyFor] | None = None) -> None:
        self._ready = dict(ready or {})
        self._loading: dict[str, Future[PolicyFor]] = {}

    def __getitem__(self, name: str) -> PolicyFor:
        return self._ready[name]

    def is_ready(self, name: str) -> bool:
        """Whether a policy can decide; it begins to load if not. ValueError if it cannot be."""
        if name in self._ready:
            return True
        if name not in self._loading:
            worker = Worker("decima-loading")
            self._loading[name] = worker.submit(lambda: ready_policy(name))
            worker.close()  # the thread ends with the call
        if not self._loading[name].done():
            return False
        self._ready[name] = self._loading.pop(name).result()
        return True


class Answers:
    """Answers of the policies of one session."""

    def __init__(self, policies: PoliciesByName, auto: Auto | None = None) -> None:
        self._policies = policies
        self._auto = auto
        self._tables = LiveTables()
        self._made: tuple[str, TraceArrays, Policy] | None = None

    def close(self) -> None:
        if self._auto is not None:
            self._auto.close()

    def answer(self, question: Message) -> dict[str, Any]:
        return self._look(question) if question["ask"] == "look" else self._plan(question)

    def _look(self, question: Message) -> dict[str, Any]:
        if self._auto is None:
            raise AttachError("the plugin asks for a choice, and policy 'auto' is not set")
        choice, wants_known = self._auto.look(News.of(question))
        if not choice["is_spark_order"] and not decides_in_jvm(str(choice["policy"])):
            # It takes over once it is loaded.
            try:
                choice["is_spark_order"] = not self._policies.is_ready(str(choice["policy"]))
            except (ValueError, OSError) as error:
                self._auto.give_up(str(error), int(question["time_ms"]))
                choice = self._auto.message()
        return {"choice": choice, "wants_known": wants_known}

    def _plan(self, question: Message) -> dict[str, Any]:
        """The policy's actions until nothing is left to give, or how it failed."""
        round_ = self._tables.fill(question)
        actions = []
        try:
            policy = self._policy(str(question["policy"]))
            while round_.is_open:
                action = policy.decide(round_.observation())
                try:
                    round_.assign(action)
                    actions.append([int(action.stage), int(action.limit)])
                except (IllegalActionError, TypeError, AttributeError, ValueError) as error:
                    return {"fault": f"illegal action {action!r}: {error}"}
        except BaseException as error:  # noqa: BLE001 - a policy may raise anything, SystemExit too
            return {"fault": f"{type(error).__name__}: {error}"}
        return {"actions": actions}

    def _policy(self, name: str) -> Policy:
        """The policy for the jobs of now; made anew when their graphs have changed."""
        trace = self._tables.trace
        assert trace is not None  # noqa: S101 - the tables are filled
        if self._made is None or self._made[:1] != (name,) or self._made[1] is not trace:
            self._made = name, trace, self._policies[name](trace)
        return self._made[2]


class Connection:
    """Connection to the JVM's planner: frames of a length (4 bytes, big endian) and JSON."""

    def __init__(self, port: int, secret: str) -> None:
        """Connect to loopback, and learn the settings; ConnectionError if it refuses."""
        self._end = socket.create_connection((ADDRESS, port))
        self._end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._send({"secret": secret})
        settings = self._receive()
        if settings is None:
            raise ConnectionError("the plugin is gone")
        self.settings = settings

    def ready(self, priors: Message | None = None) -> None:
        """Announce that questions will be answered; `priors` as `Priors.message` gives them."""
        self._send({"priors": priors})

    def refuse(self, reason: str) -> None:
        self._send({"refused": reason})

    def serve(self, answers: Answers) -> None:
        while (question := self._receive()) is not None:
            self._send({**answers.answer(question), "number": question["number"]})

    def close(self) -> None:
        """Hang up; twice does no harm."""
        try:
            self._end.shutdown(socket.SHUT_RDWR)
        except OSError:
            LOG.debug("the connection to the planner was closed already")
        self._end.close()

    def _send(self, message: Message) -> None:
        data = json.dumps(message).encode()
        self._end.sendall(len(data).to_bytes(4) + data)

    def _receive(self) -> dict[str, Any] | None:
        """Wait for the next message; None when the other end is gone."""
        head = self._exactly(4)
        if head is None:
            return None
        length = int.from_bytes(head)
        if length > _MAX_BYTES:
            raise AttachError(f"message of the planner: {length} bytes; at most {_MAX_BYTES}")
        data = self._exactly(length)
        if data is None:
            return None
        return parse_object(data, "message of the planner", AttachError)

    def _exactly(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            try:
                part = self._end.recv(count - len(data))
            except ConnectionError:
                return None
            if not part:
                return None
            data += part
        return bytes(data)
