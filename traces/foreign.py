"""Public cluster traces without a reader, recognised by the beginning of their files.

Such a file is refused by the name of its trace, not as a damaged file of another kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from traces.codecs import open_codec
from traces.errors import DamageError, TraceError
from traces.files.reading import check_regular

_HEAD_BYTES = 1 << 16
_NUMBER = r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
_MAYBE = rf"(?:{_NUMBER})?"
_READ_INSTEAD = (
    "read are batch_task.csv of Alibaba's trace of 2018 (`decima traces import alibaba`), Spark "
    "event logs, WfCommons instances and the formats of docs/trace-format.md"
)
_ROWS = (
    (
        "Alibaba's trace of 2017 (batch_task.csv)",
        rf"{_NUMBER},{_NUMBER},{_MAYBE},{_MAYBE},{_MAYBE},[A-Za-z]+,{_MAYBE},{_MAYBE}",
    ),
    (
        "Alibaba's trace of 2017 (batch_instance.csv)",
        rf"{_NUMBER},{_NUMBER},{_MAYBE},{_MAYBE},{_MAYBE},[A-Za-z]+(?:,{_MAYBE}){{6}}",
    ),
    (
        "Alibaba's PAI trace of 2020 (pai_task_table.csv)",
        rf"[^,]+,[^,]+,{_NUMBER},[A-Za-z]+(?:,{_MAYBE}){{5}},[^,]*",
    ),
    (
        "Alibaba's PAI trace of 2020 (pai_job_table.csv)",
        rf"[0-9a-f]{{8,}},[0-9a-f]{{8,}},[0-9a-f]{{4,}},[A-Za-z]+,{_MAYBE},{_MAYBE}",
    ),
    (
        "Google's trace of 2011 (task_events)",
        rf"\d+,\d?,\d+,\d+,\d*,\d,[^,]*,\d,\d+,{_MAYBE},{_MAYBE},{_MAYBE},[01]?",
    ),
    ("Google's trace of 2011 (job_events)", r"\d+,\d?,\d+,\d,[^,]*,\d,[^,]+,[^,]+"),
    (
        "Azure's trace of virtual machines (vmtable.csv)",
        rf"[^,]{{20,}},[^,]{{20,}},[^,]{{20,}},{_NUMBER},{_NUMBER}(?:,{_NUMBER}){{3}},[A-Za-z-]+"
        r",[^,]+,[^,]+",
    ),
)
_HEADERS = (
    ("Alibaba's trace of 2017", r"create_timestamp,modify_timestamp,.*"),
    ("Alibaba's PAI trace of 2020", r"job_name,(?:task_name,inst_num|inst_id),.*"),
    ("Azure's trace of functions", r"HashOwner,HashApp,.*"),
    ("Azure's trace of virtual machines", r"vm ?id,subscription ?id,.*"),
    ("Google's trace of 2011", r"time,missing info,job ID,.*"),
)
_KEYS = (
    ("Google's trace of 2019", {"collection_id", "instance_index"}),
    ("Google's trace of 2019", {"collection_id", "collection_logical_name"}),
    ("Microsoft's Philly trace (cluster_job_log)", {"vc", "jobid", "attempts"}),
)
_PHILLY = re.compile(r'\[\s*\{.{0,4000}?"(?:vc|jobid|attempts)"\s*:', re.DOTALL)


class _File(Protocol):
    """A file, here or on another file system."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Return a stream of the bytes from the beginning."""


@contextmanager
def naming_foreign(path: _File) -> Iterator[None]:
    """Name the public trace that a file belongs to, where its reader refuses the file."""
    try:
        yield
    except TraceError as error:
        head = _head(path)
        name = None if head is None else _name_of(head)
        if name is None:
            raise
        message = f"{path}: this is of {name}, which is not read; {_READ_INSTEAD}"
        raise TraceError(message) from error


def _name_of(head: str) -> str | None:
    first, _, rest = head.partition("\n")
    first = first.strip().replace('"', "")
    for name, pattern in _HEADERS:
        if re.fullmatch(pattern, first, re.IGNORECASE):
            return name
    for name, pattern in _ROWS:
        if re.fullmatch(pattern, first):
            return name
    keys = _keys(head if not rest.strip() else head.partition("\n")[0])
    for name, needed in _KEYS:
        if needed <= keys:
            return name
    return _KEYS[-1][0] if _PHILLY.match(head) and '"jobid"' in head else None


def _keys(line: str) -> set[str]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return set()
    record = record[0] if isinstance(record, list) and record else record
    return set(record) if isinstance(record, dict) else set()


def _head(path: _File) -> str | None:
    """The first text of a file, unfolded; None where there is none to read."""
    try:
        if isinstance(path, Path):
            check_regular(path, TraceError)
        with path.open("rb") as stream:
            pieces = open_codec(stream)
            return next(iter(pieces), b"")[:_HEAD_BYTES].decode("utf-8", "replace")
    except (OSError, DamageError, TraceError):
        return None
