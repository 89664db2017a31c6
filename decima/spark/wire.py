"""Messages between the driver and a policy's process: a request frame, a response frame, a plan.

A frame is its length (4 bytes, big endian) and so many bytes. A request is a safetensors file of
the session's tables, row by row as they lie in memory, and of the jobs' graphs where these have
changed. A reply is a letter and what belongs to it. Nothing that is read can be executed.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from spark_sim.observation import Action
from spark_sim.tables import CLOCK, JOB, STAGE, State, Table
from traces import Job, Stage, Trace
from traces.arrays import TraceArrays, to_arrays

READY, ACTIONS, FAULT, REFUSED = b"R", b"A", b"F", b"X"
"""replies: it can be asked; (K, 3) actions as int64; the policy's error; no such policy"""
MAX_BYTES = 1 << 30
_LENGTH = struct.Struct(">I")
_TABLES = {"clock": CLOCK, "jobs": JOB, "stages": STAGE}
_GRAPH = "graph."
_WIDTH = len(Action._fields)


class WireError(ValueError):
    """A message that is none of this protocol; one line."""


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
    """Parse the output of `request_bytes`.

    Raises:
        WireError: a part is missing, of another type or of another shape.
    """
    try:
        parts = safetensors.numpy.load(data)
        graphs = None
        if any(name.startswith(_GRAPH) for name in parts):
            graphs = TraceArrays(*(_graph_part(parts, name) for name in TraceArrays._fields))
            _check_graphs(graphs)
        tables = {name: parts[name].view(kind) for name, kind in _TABLES.items()}
        return PlanRequest(tables, _actions(parts["given"]), graphs)
    except WireError:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise WireError(f"not a request for a plan: {type(error).__name__}: {error}") from error


def _graph_part(parts: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    found, usual = parts[_GRAPH + name], getattr(_usual_graphs(), name)
    if found.dtype != usual.dtype or found.ndim != usual.ndim:
        raise WireError(f"{name} is {found.dtype} in {found.ndim} dimensions")
    return found


def _check_graphs(graphs: TraceArrays) -> None:
    """Refuse arrays whose rows point beyond each other; machine code would follow them."""
    for name, first, count in (
        ("first_stage", graphs.first_stage, len(graphs.num_tasks)),
        ("first_child", graphs.first_child, len(graphs.children)),
        ("first_level", graphs.first_level, len(graphs.level_executors)),
    ):
        if len(first) < 2 or first[0] != 0 or first[-1] != count or (np.diff(first) < 0).any():
            raise WireError(f"{name} does not lead to {count} rows")
    stages, levels = len(graphs.num_tasks), len(graphs.level_executors)
    each_stage = {"mean_ms", "critical_path_ms", "num_parents", "cpu", "memory_mb"}
    each_level = {"wave_start", "wave_count", "wave_mean_ms", "fresh_is_measured"}
    lengths = dict.fromkeys(each_stage, stages) | dict.fromkeys(each_level, levels)
    lengths |= {"first_child": stages + 1, "first_level": stages + 1}
    for name, length in lengths.items():
        if len(getattr(graphs, name)) != length:
            raise WireError(f"{name} has {len(getattr(graphs, name))} rows, not {length}")
    ends = graphs.wave_start + graphs.wave_count
    if (
        (graphs.wave_start < 0).any()
        or (graphs.wave_count < 1).any()
        or (ends > len(graphs.samples_ms)).any()
    ):
        raise WireError("waves lie outside their samples")
    size = np.repeat(np.diff(graphs.first_stage), np.diff(graphs.first_stage))
    if (graphs.children < 0).any() or (
        graphs.children >= np.repeat(size, np.diff(graphs.first_child))
    ).any():
        raise WireError("a child is no stage of its job")


@cache
def _usual_graphs() -> TraceArrays:
    """Arrays of one job, of the types that all have."""
    return to_arrays(Trace("usual", (Job("usual", (Stage.fixed("usual", 1, 1.0),)),)))


def actions_bytes(actions: Sequence[Action]) -> bytes:
    """The reply `ACTIONS`."""
    return ACTIONS + np.array([tuple(one) for one in actions], "<i8").tobytes()


def read_actions(data: bytes) -> list[Action]:
    """Actions of a reply without its letter.

    Raises:
        WireError: not whole actions.
    """
    try:
        return _actions(np.frombuffer(data, "<i8").reshape(-1, _WIDTH))
    except ValueError as error:
        raise WireError(f"not whole actions: {len(data)} bytes") from error


def _actions(rows: NDArray[Any]) -> list[Action]:
    if rows.dtype != np.int64 or rows.ndim != 2 or rows.shape[1] != _WIDTH:
        raise WireError(f"actions are {rows.dtype} of shape {rows.shape}")
    return [Action(*(int(part) for part in row)) for row in rows]


def send(end: socket.socket, data: bytes) -> None:
    """Send a frame, within the timeout of `end`.

    Raises:
        OSError: TimeoutError, or no process listens.
    """
    end.sendall(_LENGTH.pack(len(data)) + data)


def receive(end: socket.socket, ends: float | None = None) -> bytes | None:
    """The next frame; None when the other end is gone.

    Args:
        ends: of `time.monotonic`, until when to wait; None waits for ever.

    Raises:
        TimeoutError: it did not come in time.
        WireError: it is too long.
    """
    head = _exactly(end, _LENGTH.size, ends)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > MAX_BYTES:
        raise WireError(f"a frame of {length} bytes; at most {MAX_BYTES}")
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
