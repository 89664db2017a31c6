"""The project's trace file: Parquet, one row for each job. `docs/trace-format.md` describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from files.writing import written_whole
from traces.errors import TraceError
from traces.model import Job, LevelDurations, Stage, Trace

FORMAT = "decima-trace"
VERSION = 1

_SAMPLES = pa.list_(pa.float32())
_LEVEL = pa.struct(
    [
        pa.field("executors", pa.int32(), nullable=False),
        pa.field("fresh_ms", _SAMPLES),
        pa.field("first_ms", _SAMPLES),
        pa.field("rest_ms", _SAMPLES),
    ]
)
_STAGE = pa.struct(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("num_tasks", pa.int32(), nullable=False),
        pa.field("parents", pa.list_(pa.int32())),
        pa.field("cpu", pa.float64()),
        pa.field("memory_mb", pa.float64()),
        pa.field("durations", pa.list_(_LEVEL)),
    ]
)
SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("arrival_ms", pa.float64()),
        pa.field("stages", pa.list_(_STAGE)),
    ]
)


def write_trace(trace: Trace, path: Path) -> None:
    """Write `trace` to `path`; the file appears whole or not at all.

    Raises:
        TraceError: the file cannot be written.
    """
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": trace.name,
        "metadata": dict(trace.metadata),
    }
    schema = SCHEMA.with_metadata({FORMAT: json.dumps(header)})
    table = pa.Table.from_pylist([_job_row(job) for job in trace.jobs], schema=schema)
    with written_whole(path, TraceError) as file:
        pq.write_table(table, file, compression="zstd")


def read_trace(path: Path) -> Trace:
    """Read and validate a trace file.

    Raises:
        TraceError: the file is missing, truncated, of another format or version, or its content
            breaks a rule of `traces.model`.
    """
    header = _read_header(path)
    try:
        # The schema's own check would accept columns of another type; cast refuses them.
        rows = pq.read_table(path).select(SCHEMA.names).cast(SCHEMA).to_pylist()
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise TraceError(f"{path}: damaged trace file: {_one_line(error)}") from error
    try:
        return Trace(header["name"], tuple(_job(row) for row in rows), header["metadata"])
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from error
    except TypeError as error:  # only nulls are left to be of another type than the schema's
        raise TraceError(f"{path}: a name, count, parent, stage or level is null") from error


def _read_header(path: Path) -> dict[str, Any]:
    try:
        stored = pq.read_schema(path).metadata or {}
        header = dict(json.loads(stored[FORMAT.encode()]))
    except OSError as error:
        raise TraceError(f"{path}: cannot read: {error.strerror or _one_line(error)}") from error
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{path}: not a trace file (Parquet with a {FORMAT} header)") from error
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise TraceError(
            f"{path}: trace format {header.get('format')!r} version {header.get('version')!r}, "
            f"this reader knows {FORMAT!r} version {VERSION}"
        )
    if not isinstance(header.get("name"), str) or not isinstance(header.get("metadata"), dict):
        raise TraceError(f"{path}: the trace header lacks its name or metadata")
    return header


def _one_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _job_row(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "arrival_ms": job.arrival_ms,
        "stages": [
            {
                "name": stage.name,
                "num_tasks": stage.num_tasks,
                "parents": list(stage.parents),
                "cpu": stage.cpu,
                "memory_mb": stage.memory_mb,
                "durations": [
                    {
                        "executors": level.executors,
                        "fresh_ms": level.fresh_ms,
                        "first_ms": level.first_ms,
                        "rest_ms": level.rest_ms,
                    }
                    for level in stage.durations
                ],
            }
            for stage in job.stages
        ],
    }


def _job(row: dict[str, Any]) -> Job:
    return Job(
        row["name"], tuple(_stage(stage) for stage in row["stages"] or ()), row["arrival_ms"]
    )


def _stage(row: dict[str, Any]) -> Stage:
    durations = tuple(
        LevelDurations.of(
            level["executors"],
            fresh_ms=_samples(level["fresh_ms"]),
            first_ms=_samples(level["first_ms"]),
            rest_ms=_samples(level["rest_ms"]),
        )
        for level in row["durations"] or ()
    )
    parents = tuple(row["parents"] or ())
    return Stage(row["name"], row["num_tasks"], parents, durations, row["cpu"], row["memory_mb"])


def _samples(values: list[float | None] | None) -> np.ndarray[Any, np.dtype[np.float32]]:
    # A null inside a list becomes NaN, which LevelDurations refuses by name.
    return np.array(values if values is not None else (), dtype=np.float32)
