"""Messages between a driver and the coordinator: frames of JSON, each value checked.

The plugin's side is `decima/spark/java/coordinator/`. Both ends first prove that they have the same
secret, which itself is never sent. The coordinator sends a random number. The driver answers with
one of its own and HMAC-SHA256(secret, "driver" + both). The coordinator then proves itself
likewise, so that a program in its place learns nothing.

A driver then registers, and reports. A report has the columns of `RoundMessage.java` for the stages
of all its jobs.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from decima.spark.settings import WEIGHTS, AttachError
from traces.files.names import clean
from traces.files.numbers import MAX_TIME_MS, is_count, is_number
from traces.files.reading import parse_object
from traces.model import MAX_TASKS_PER_STAGE
from traces.numbers import Float64, Int64

_MAX_COUNT = 2**31 - 1
MAX_STAGES = 100_000
"""stages of one application in a report"""
DRIVER, COORDINATOR = b"driver", b"coordinator"
HELLO_BYTES = 1_024
"""longest frame before the proof"""
HELLO_S = 5.0
"""time for a proof to come"""
MAX_BYTES = 16 << 20
"""longest frame of a driver"""
_MAX_UNSENT = 1 << 16
"""bytes that a driver may leave unread"""


class MessageError(AttachError):
    """Error of a message that makes no sense; one line."""


def proof(secret: bytes, who: bytes, first: str, second: str) -> str:
    """Return the proof of one end for a pair of random numbers: the coordinator's, the driver's."""
    return hmac.new(secret, who + first.encode() + second.encode(), hashlib.sha256).hexdigest()


class Connection:
    """Connection of a driver: frames of a length (4 bytes, big endian) and JSON."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def is_known(self, secret: bytes) -> bool:
        """Return whether the driver proved in time that it has the secret."""
        first = secrets.token_hex(32)
        self.send({"nonce": first})
        try:
            async with asyncio.timeout(HELLO_S):
                hello = await self.receive(HELLO_BYTES)
        except (TimeoutError, MessageError):
            return False
        if hello is None:
            return False
        second, driver_proof = hello.get("nonce"), hello.get("proof")
        if not isinstance(second, str) or not second.isascii():
            return False
        if not isinstance(driver_proof, str) or not driver_proof.isascii():
            return False
        if not hmac.compare_digest(driver_proof, proof(secret, DRIVER, first, second)):
            return False
        self.send({"proof": proof(secret, COORDINATOR, first, second)})
        return True

    async def receive(self, max_bytes: int = MAX_BYTES) -> dict[str, Any] | None:
        """Wait for the next message; None if the driver is gone, MessageError if it is none."""
        try:
            length = int.from_bytes(await self._reader.readexactly(4))
            if length > max_bytes:
                raise MessageError(f"a frame of {length} bytes; at most {max_bytes}")
            data = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return parse_object(data, "message of a driver", MessageError)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message without waiting; a driver that does not read is cut off."""
        data = json.dumps(message).encode()
        self._writer.write(len(data).to_bytes(4) + data)
        if self._writer.transport.get_write_buffer_size() > _MAX_UNSENT:
            self.close()

    def close(self) -> None:
        self._writer.transport.abort()


class Registration(NamedTuple):
    """Introduction of an application."""

    key: str
    """Spark's id of the application"""
    name: str
    user: str
    queue: str
    weight: float
    most: int
    """executors that its own settings allow"""
    tasks: int
    """tasks that each of its executors runs at once"""


class Stages(NamedTuple):
    """The unfinished work of an application, as one job with S stages and E edges."""

    num_jobs: int
    """unfinished jobs of the application"""
    age_ms: float
    """since the oldest of them arrived"""
    num_tasks: Int64  # (S,)
    launched: Int64  # (S,)
    finished: Int64  # (S,)
    runnable: Int64  # (S,) 0 or 1
    mean_ms: Float64  # (S,)
    critical_path_ms: Float64  # (S,)
    first_child: Int64  # (S + 1,) row in `children`
    children: Int64  # (E,) rows of stages

    @property
    def waiting(self) -> int:
        return int((self.num_tasks - self.launched).sum())

    @property
    def work_ms(self) -> float:
        """Tasks times mean duration over all stages."""
        return float((self.num_tasks * self.mean_ms).sum())


class Report(NamedTuple):
    """State of an application."""

    stages: Stages | None
    """None: it has no work"""
    registered: int
    """executors that its driver knows, without those that leave"""
    ended: tuple[Mapping[str, Any], ...]
    """jobs that ended since the last report, as rows of a decision log"""


def read_registration(message: Mapping[str, Any]) -> Registration:
    """Parse the introduction of an application; MessageError if a part is missing or wrong."""
    weight = message.get("weight", 1.0)
    least, most = WEIGHTS
    if not is_number(weight) or not least <= weight <= most:
        raise MessageError(
            f"weight is {weight!r:.40}: a number from {least:g} to {most:,g} is needed"
        )
    key, name, user, queue = (_text(message, label) for label in ("id", "name", "user", "queue"))
    return Registration(
        key,
        name,
        user,
        queue,
        float(weight),
        max(1, _count(message, "most")),
        max(1, _count(message, "tasks")),
    )


def read_report(message: Mapping[str, Any]) -> Report:
    """Parse the state of an application; MessageError if a part is missing or wrong."""
    ended = message.get("ended", [])
    if not isinstance(ended, list) or not all(isinstance(row, dict) for row in ended):
        raise MessageError("ended is no list of jobs")
    columns = message.get("stages")
    if columns is not None and not isinstance(columns, dict):
        raise MessageError(f"stages is {columns!r:.40}: columns are needed")
    _count(message, "number")  # of the newest target that the driver follows
    stages = None if columns is None else _stages(columns)
    return Report(stages, _count(message, "registered"), tuple(ended))


def _stages(columns: Mapping[str, Any]) -> Stages:
    num_tasks = _counts(columns, "num_tasks")
    size = len(num_tasks)
    launched, finished, runnable = (
        _counts(columns, label, size) for label in ("launched", "finished", "runnable")
    )
    if size == 0 or size > MAX_STAGES:
        raise MessageError(f"{size:,} stages: from 1 to {MAX_STAGES:,} are allowed")
    if (num_tasks < 1).any() or (finished > launched).any() or (launched > num_tasks).any():
        raise MessageError("stages need finished <= launched <= num_tasks, and a task each")
    if (num_tasks > MAX_TASKS_PER_STAGE).any():
        raise MessageError(
            f"num_tasks is {num_tasks.max():,}: a stage has at most {MAX_TASKS_PER_STAGE:,}"
        )
    first_child = _counts(columns, "first_child", size + 1)
    children = _counts(columns, "children")
    ordered = first_child[0] == 0 and (np.diff(first_child) >= 0).all()
    if not ordered or first_child[-1] != len(children) or (children >= size).any():
        raise MessageError("first_child and children are no edges between the stages")
    age_ms = columns.get("time_ms")
    if not is_number(age_ms) or not 0 <= age_ms <= MAX_TIME_MS:
        raise MessageError(f"time_ms is {age_ms!r:.40}: a time is needed")
    num_jobs = len(_numbers(columns, "arrival_ms"))
    if not 1 <= num_jobs <= size:
        raise MessageError(f"{num_jobs:,} jobs of {size:,} stages: each has a stage at least")
    stages = Stages(
        num_jobs,
        float(age_ms),
        num_tasks,
        launched,
        finished,
        np.minimum(runnable, 1),
        _numbers(columns, "mean_ms", size),
        _numbers(columns, "critical_path_ms", size),
        first_child,
        children,
    )
    if stages.work_ms > MAX_TIME_MS:
        raise MessageError(
            f"the work is {stages.work_ms:.3g} ms: at most {MAX_TIME_MS:,} are allowed"
        )
    return stages


def _text(message: Mapping[str, Any], label: str) -> str:
    value = message.get(label)
    if not isinstance(value, str):
        raise MessageError(f"{label} is {value!r:.40}: text is needed")
    return clean(value)


def _count(message: Mapping[str, Any], label: str) -> int:
    value = message.get(label)
    if not is_count(value, _MAX_COUNT):
        raise MessageError(f"{label} is {value!r:.40}: a whole number is needed")
    return value


def _counts(columns: Mapping[str, Any], label: str, size: int | None = None) -> Int64:
    """(size,) a column of whole numbers or truth values."""
    values = _numbers(columns, label, size)
    if len(values) and (values != np.floor(values)).any():
        raise MessageError(f"{label} must be whole numbers")
    return values.astype(np.int64)


def _numbers(columns: Mapping[str, Any], label: str, size: int | None = None) -> Float64:
    """(size,) a column, for example of milliseconds."""
    values = columns.get(label)
    if not isinstance(values, list) or (size is not None and len(values) != size):
        raise MessageError(f"{label} is no column of {size or 'the'} stages")
    try:
        column = np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise MessageError(f"{label} must be numbers") from error
    is_time = np.isfinite(column) & (column >= 0) & (column <= MAX_TIME_MS)
    if column.ndim != 1 or not is_time.all():
        raise MessageError(f"{label} must be numbers from 0 to {MAX_TIME_MS:,}")
    return column
