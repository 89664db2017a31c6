"""What goes between the driver and the process of a policy: one frame there, one back, a plan.

A frame is its length (4 bytes, big endian) and so many bytes. A request is a safetensors file of
the session's tables, row by row as they lie in memory, and of the jobs' graphs where these have
changed. A reply is a letter and what belongs to it. Nothing that is read can be executed.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from spark_sim.observation import Action
from spark_sim.tables import CLOCK, JOB, STAGE, State, Table
from traces.arrays import TraceArrays

READY, ACTIONS, FAULT, REFUSED = b"R", b"A", b"F", b"X"
"""replies: it can be asked; (K, 3) actions as int64; the policy's error; no such policy"""
MAX_BYTES = 1 << 30
_LENGTH = struct.Struct(">I")
_TABLES = {"clock": CLOCK, "jobs": JOB, "stages": STAGE}
_GRAPH = "graph."
_WIDTH = len(Action._fields)


class PlanRequest(NamedTuple):
    """A round of decisions to be made."""

    tables: dict[str, Table]
    """`clock`, `jobs` and `stages` of `spark_sim.tables.State`"""
    given: list[Action]
    """decided already"""
    graphs: TraceArrays | None
    """of the jobs; None: those of the request before"""


def request_bytes(state: State, given: Sequence[Action], *, with_graphs: bool) -> bytes:
    """A `PlanRequest` as it travels."""
    parts = {name: getattr(state, name).view(np.uint8) for name in _TABLES}
    parts["given"] = np.array([tuple(one) for one in given], np.int64).reshape(-1, _WIDTH)
    if with_graphs:
        parts |= {_GRAPH + name: value for name, value in state.trace._asdict().items()}
    found: bytes = safetensors.numpy.save(parts)
    return found


def read_request(data: bytes) -> PlanRequest:
    """The other end of `request_bytes`."""
    parts = safetensors.numpy.load(data)
    graphs = None
    if f"{_GRAPH}first_stage" in parts:
        graphs = TraceArrays(*(parts[_GRAPH + name] for name in TraceArrays._fields))
    tables = {name: parts[name].view(kind) for name, kind in _TABLES.items()}
    return PlanRequest(tables, _actions(parts["given"]), graphs)


def actions_bytes(actions: Sequence[Action]) -> bytes:
    """The reply `ACTIONS`."""
    return ACTIONS + np.array([tuple(one) for one in actions], "<i8").tobytes()


def read_actions(data: bytes) -> list[Action]:
    """Actions of a reply without its letter.

    Raises:
        ValueError: not whole actions.
    """
    return _actions(np.frombuffer(data, "<i8").reshape(-1, _WIDTH))


def _actions(rows: NDArray[np.int64]) -> list[Action]:
    return [Action(*(int(part) for part in row)) for row in rows]


def send(end: socket.socket, data: bytes) -> None:
    """Send a frame, within the timeout of `end`.

    Raises:
        OSError: TimeoutError, or nobody is there.
    """
    end.sendall(_LENGTH.pack(len(data)) + data)


def receive(end: socket.socket, ends: float | None = None) -> bytes | None:
    """The next frame; None when the other end is gone.

    Args:
        ends: of `time.monotonic`, until when to wait; None waits for ever.

    Raises:
        TimeoutError: it did not come in time.
        ValueError: it is too long.
    """
    head = _exactly(end, _LENGTH.size, ends)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > MAX_BYTES:
        raise ValueError(f"a frame of {length} bytes; at most {MAX_BYTES}")
    return _exactly(end, length, ends)


def _exactly(end: socket.socket, count: int, ends: float | None) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        # 0 would mean "do not block", which fails in another way
        end.settimeout(None if ends is None else max(1e-3, ends - time.monotonic()))
        try:
            part = end.recv(count - len(found))
        except ConnectionError:
            return None
        if not part:
            return None
        found += part
    return bytes(found)
