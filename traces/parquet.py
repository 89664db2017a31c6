"""The project's trace file: Parquet, one row for each job. `docs/trace-format.md` describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from traces.bounds import DEFAULT, TO_READ_MORE, Bounds
from traces.columns import Columns, joined
from traces.errors import TraceError
from traces.files import writing
from traces.files.names import clean
from traces.files.reading import parse_json, read_bytes
from traces.files.writing import written_whole
from traces.model import MAX_NAME
from traces.parquet_columns import read_columns, table_of
from traces.parquet_pages import excess_of
from traces.trace import Trace

FORMAT = "decima-trace"
VERSION, WITH_NEEDS, WITH_WEIGHTS = 1, 2, 3
"""of the file; the second adds what tasks need, the third weights and deadlines of jobs; each is
written only where a stage or a job is not as usual"""

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
_NEEDS = [pa.field("slots", pa.int32()), pa.field("barrier", pa.bool_())]
SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("arrival_ms", pa.float64()),
        pa.field("stages", pa.list_(_STAGE)),
    ]
)
_SCHEMA_WITH_NEEDS = SCHEMA.set(2, pa.field("stages", pa.list_(pa.struct([*_STAGE, *_NEEDS]))))
SCHEMAS = {
    VERSION: SCHEMA,
    WITH_NEEDS: _SCHEMA_WITH_NEEDS,
    WITH_WEIGHTS: pa.schema(
        [
            *_SCHEMA_WITH_NEEDS,
            pa.field("weight", pa.float64()),
            pa.field("deadline_ms", pa.float64()),
        ]
    ),
}
"""by version"""

_NAMES = ["name", "stages.list.element.name"]
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
"""name columns, read as dictionaries so that repeated long names take no memory"""


def _with_dictionaries(schema: pa.Schema) -> pa.Schema:
    name = pa.field("name", _DICTIONARY, nullable=False)
    stage = pa.struct([name, *list(schema.field("stages").type.value_type)[1:]])
    return schema.set(0, name).set(2, pa.field("stages", pa.list_(stage)))


_READ_SCHEMAS = {version: _with_dictionaries(schema) for version, schema in SCHEMAS.items()}


def check_output(path: Path) -> None:
    """Check early for errors that `write_trace` would raise after the work."""
    if path.suffix.lower() != ".parquet":
        raise TraceError(f"{path}: a trace file ends in .parquet")
    writing.check_output(path, TraceError)


def write_trace(trace: Trace, path: Path) -> None:
    """Write `trace` to `path`; the file appears whole or not at all.

    Raises:
        TraceError: the file cannot be written.
    """
    columns = trace.columns
    version = _least_version(columns)
    header = {
        "format": FORMAT,
        "version": version,
        "name": trace.name,
        "metadata": dict(trace.metadata),
    }
    schema = SCHEMAS[version].with_metadata({FORMAT: json.dumps(header)})
    table = table_of(columns, with_needs=version >= WITH_NEEDS).select(schema.names).cast(schema)
    with written_whole(path, TraceError) as file:
        pq.write_table(table, file, compression="zstd", row_group_size=max(1, len(table)))


def _least_version(columns: Columns) -> int:
    """Return the first version that can hold these jobs, which more readers know."""
    if (columns.weight != 1).any() or not np.isnan(columns.deadline_ms).all():
        return WITH_WEIGHTS
    return WITH_NEEDS if columns.barrier.any() or (columns.slots != 1).any() else VERSION


def read_trace(path: Path, limits: Bounds = DEFAULT) -> Trace:
    """Read and validate a trace file.

    Its unfolded size is checked against `limits` before it is decoded.

    Raises:
        TraceError: the file is missing, truncated, of another format or version, larger than
            `limits` allow, or its content breaks a rule of `traces.model`.
    """
    data = read_bytes(path, TraceError, limits.file_bytes)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TraceError(f"{path}: not a trace file (Parquet with a {FORMAT} header)") from error
    header = _header(path, file)
    try:
        excess = excess_of(data, limits.values, limits.content_bytes, f" ({TO_READ_MORE})")
        if excess is not None:
            raise TraceError(f"{path}: {excess}")
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=_NAMES)
        # One by one: names of several groups do not become one dictionary inside a list. The
        # schema's own check would accept columns of another type; cast refuses them.
        schema = _READ_SCHEMAS[header["version"]]
        groups = [
            file.read_row_group(number).select(schema.names).cast(schema)
            for number in range(file.num_row_groups)
        ]
    except TraceError:
        raise
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise TraceError(f"{path}: damaged trace file: {_one_line(error)}") from error
    try:
        parts = [read_columns(group, limits) for group in groups if len(group)]
        read = joined(parts) if len(parts) != 1 else parts[0]
        del data, file, groups, parts  # as large as what was read
        pa.default_memory_pool().release_unused()
        return Trace.of_columns(clean(header["name"], MAX_NAME), read, header["metadata"])
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from error
    except (pa.ArrowException, IndexError, ValueError) as error:  # a dictionary without an entry
        raise TraceError(f"{path}: damaged trace file: {_one_line(error)}") from error


def _header(path: Path, file: pq.ParquetFile) -> dict[str, Any]:
    stored = file.schema_arrow.metadata or {}
    if FORMAT.encode() not in stored:
        raise TraceError(f"{path}: not a trace file (Parquet with a {FORMAT} header)")
    header = parse_json(stored[FORMAT.encode()], f"{path}: trace header", TraceError)
    if not isinstance(header, dict):
        raise TraceError(f"{path}: not a trace file: its header is {header!r:.40}")
    if header.get("format") != FORMAT or header.get("version") not in tuple(SCHEMAS):
        raise TraceError(
            f"{path}: trace format {header.get('format')!r:.40} version "
            f"{header.get('version')!r:.40}, this reader knows {FORMAT!r} version {VERSION} to "
            f"{WITH_WEIGHTS}"
        )
    if not isinstance(header.get("name"), str) or not isinstance(header.get("metadata"), dict):
        raise TraceError(f"{path}: the trace header lacks its name or metadata")
    return header


def _one_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
