"""The project's trace file: Parquet, one row for each job. `docs/trace-format.md` describes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from traces.bounds import DEFAULT, TO_READ_MORE, Bounds
from traces.codecs import most_unfolded
from traces.columns import Columns, Names, Rows, joined, names_of
from traces.errors import TraceError
from traces.files import writing
from traces.files.names import clean
from traces.files.reading import parse_json, read_bytes
from traces.files.writing import written_whole
from traces.model import MAX_NAME
from traces.numbers import Bool, Float64, Integers
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

_WAVE_FIELDS = ("fresh_ms", "first_ms", "rest_ms")
_NAMES = ["name", "stages.list.element.name"]
_NAME_TYPE = pa.dictionary(pa.int32(), pa.string())
"""name columns, read as dictionaries so that repeated long names take no memory"""
FREE_VALUES = 2_000_000
"""values that a file of any size may unfold to; each takes some 25 bytes once it is read"""
MAX_VALUES_PER_BYTE = 20
"""values that each byte may unfold to beyond `FREE_VALUES`; recorded traces reach 1"""


def _with_dictionaries(schema: pa.Schema) -> pa.Schema:
    name = pa.field("name", _NAME_TYPE, nullable=False)
    stage = pa.struct([name, *list(schema.field("stages").type.value_type)[1:]])
    return schema.set(0, name).set(2, pa.field("stages", pa.list_(stage)))


_READ_SCHEMAS = {version: _with_dictionaries(schema) for version, schema in SCHEMAS.items()}


def check_output(path: Path) -> None:
    """Check early for errors that `write_trace` would raise after the work."""
    if path.suffix.lower() != ".parquet":
        raise TraceError(f"{path}: a trace file ends in .parquet")
    writing.check_output(path, TraceError)


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write `trace` to `path`, whole or not at all; TraceError if that fails."""
    columns = trace.columns
    # The first version that can hold these jobs, which older readers read, too.
    version = VERSION
    if columns.barrier.any() or (columns.slots != 1).any():
        version = WITH_NEEDS
    if (columns.weight != 1).any() or not np.isnan(columns.deadline_ms).all():
        version = WITH_WEIGHTS
    header = {
        "format": FORMAT,
        "version": version,
        "name": trace.name,
        "metadata": dict(trace.metadata),
    }
    schema = SCHEMAS[version].with_metadata({FORMAT: json.dumps(header)})
    table = table_of(columns, with_needs=version >= WITH_NEEDS).select(schema.names).cast(schema)
    with written_whole(Path(path), TraceError) as file:
        pq.write_table(table, file, compression="zstd", row_group_size=max(1, len(table)))


def read_trace(path: str | Path, limits: Bounds = DEFAULT) -> Trace:
    """Read and validate a trace file.

    Its unfolded size is checked against `limits` before it is decoded.

    Raises:
        TraceError: the file is missing, truncated, of another format or version, larger than
            `limits` allow, or its content breaks a rule of `traces.model`.
    """
    path = Path(path)
    data = read_bytes(path, TraceError, limits.file_bytes)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TraceError(f"{path}: not a trace file (Parquet with a {FORMAT} header)") from error
    header = _header(path, file)
    try:
        excess = excess_of(
            file.metadata, len(data), limits.values, limits.content_bytes, f" ({TO_READ_MORE})"
        )
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


# --- columns of a table --------------------------------------------------------------------------


def read_columns(table: pa.Table, limits: Bounds) -> Columns:
    """Return the columns of a table of the trace file's schema, whose names are dictionaries.

    Sizes, nulls and NaN are checked here, no other rule of `traces.model`.
    """
    names = _names(table["name"].combine_chunks())
    of_jobs = table["stages"].combine_chunks()
    first_stage = _starts(of_jobs)
    stages = of_jobs.values
    most = np.diff(first_stage)
    if (most > limits.stages_per_job).any():
        row = int(np.argmax(most > limits.stages_per_job))
        raise TraceError(
            f"job {names[row]!r}: {most[row]:,} stages, at most {limits.stages_per_job:,} are read "
            f"({TO_READ_MORE})"
        )
    durations = stages.field("durations")
    levels = durations.values
    count = max(len(stages), len(levels))
    if count > limits.stages:
        raise TraceError(
            f"{count:,} stages and executor levels, at most {limits.stages:,} are read "
            f"({TO_READ_MORE})"
        )
    stage_names = _names(_present(stages).field("name"))
    parents = stages.field("parents")
    level = _present(levels)
    fresh, first, rest = (_samples(level.field(wave)) for wave in _WAVE_FIELDS)
    return Columns(
        names,
        _floats(table["arrival_ms"].combine_chunks(), "job", names, "arrival"),
        *_weights(table, names),
        first_stage,
        stage_names,
        _integers(stages.field("num_tasks")),
        Rows(_starts(parents), _plain(_present(parents.values))),
        _floats(stages.field("cpu"), "stage", stage_names, "cpu"),
        _floats(stages.field("memory_mb"), "stage", stage_names, "memory_mb"),
        *_needs(stages),
        _starts(durations),
        _integers(level.field("executors")),
        (fresh, first, rest),
    )


def _starts(column: pa.ListArray) -> Integers:
    """(K + 1,) where the list of each row begins; a null list is empty."""
    return _plain(column.offsets)


def _integers(column: pa.Array) -> Integers:
    return _plain(_present(column))


def _plain(column: pa.Array) -> NDArray[Any]:
    """(K,) view of numbers without null; `to_numpy` would load pandas, which takes 0.2 s."""
    return np.from_dlpack(column)


def _filled(column: pa.Array) -> NDArray[Any]:
    """(K,) numbers, NaN for null; where all are null, one in memory."""
    if column.null_count == 0:
        return _plain(column)
    if column.null_count == len(column):
        return np.broadcast_to(np.nan, len(column))
    return _plain(pc.fill_null(column, np.nan))


def _floats(column: pa.Array, what: str, names: Names, label: str) -> Float64:
    """(K,) numbers, NaN for null; TraceError if the file itself holds a NaN."""
    if column.null_count < len(column):
        is_nan = pc.is_nan(column).fill_null(False)
        if pc.any(is_nan).as_py():
            row = is_nan.to_pylist().index(True)
            raise TraceError(f"{what} {names[row]!r}: {label} nan must be finite")
    return _filled(column)


def _weights(table: pa.Table, names: Names) -> tuple[Float64, Float64]:
    """(J,) weights of jobs and (J,) their deadlines; older files have neither."""
    if "weight" not in table.column_names:
        return np.broadcast_to(1.0, len(table)), np.broadcast_to(np.nan, len(table))
    weight = pc.fill_null(table["weight"].combine_chunks(), 1.0)
    deadline_ms = table["deadline_ms"].combine_chunks()
    return (
        _floats(weight, "job", names, "weight"),
        _floats(deadline_ms, "job", names, "deadline"),
    )


def _needs(stages: pa.StructArray) -> tuple[Integers, Bool]:
    """(S,) slots of each task and (S,) whether tasks start at once; older files have neither."""
    if stages.type.get_field_index("slots") < 0:
        return np.broadcast_to(1, len(stages)), np.broadcast_to(False, len(stages))
    barrier = pc.fill_null(stages.field("barrier"), False).cast(pa.int8())
    return _plain(pc.fill_null(stages.field("slots"), 1)), _plain(barrier).astype(np.bool_)


def _samples(column: pa.ListArray) -> Rows:
    values = column.values
    if len(values) == 0:
        return Rows(np.broadcast_to(np.int32(0), len(column) + 1), np.empty(0, np.float32))
    # A null inside a list becomes NaN, which the rules refuse.
    return Rows(_starts(column), _filled(values).astype(np.float32, copy=False))


class _Words(Sequence[str]):
    """Names in a column of the file, each made a string when it is asked for."""

    def __init__(self, column: pa.Array) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return _Words(self.column[index])
        return str(self.column[index].as_py())

    def __iter__(self) -> Iterator[str]:
        return iter(self.column.to_pylist())


def _names(column: pa.DictionaryArray) -> Names:
    known = _present(column.dictionary)
    index = _integers(column.indices)
    if len(index) and not 0 <= int(index.max()) < len(known):
        raise IndexError(f"name {int(index.max())} of {len(known)}")
    if _are_clean(known):
        return Names(index, _Words(known))
    cleaned = names_of([clean(name, MAX_NAME) for name in known.to_pylist()])  # some may be equal
    return Names(cleaned.index[index], cleaned.words)


def _are_clean(known: pa.StringArray) -> bool:
    """Return whether the names are distinct and `clean` would change none of them."""
    if len(known) == 0 or pc.max(pc.utf8_length(known)).as_py() > MAX_NAME:
        return len(known) == 0
    if pc.count_distinct(known).as_py() < len(known):
        return False
    is_plain = pc.all(pc.ascii_is_printable(known)).as_py()
    return bool(is_plain or "".join(known.to_pylist()).isprintable())


def _present(column: Any) -> Any:
    if column.null_count > 0:
        raise TraceError("a name, count, parent, stage or level is null")
    return column


# --- writing -------------------------------------------------------------------------------------


def table_of(columns: Columns, *, with_needs: bool = False) -> pa.Table:
    """Return the table of a trace file; `with_needs`: with slots and barriers of stages."""
    level = _struct(
        executors=pa.array(columns.executors, pa.int32()),
        **{
            wave: _lists(rows.start, pa.array(rows.values, pa.float32()))
            for wave, rows in zip(_WAVE_FIELDS, columns.waves, strict=True)
        },
    )
    parents = pa.array(columns.parents.values, pa.int32())
    needs = {}
    if with_needs:
        needs["slots"] = pa.array(columns.slots, pa.int32())
        needs["barrier"] = pa.array(columns.barrier, pa.bool_())
    stage = _struct(
        name=_strings(columns.stage_name),
        num_tasks=pa.array(columns.num_tasks, pa.int32()),
        parents=_lists(columns.parents.start, parents),
        cpu=_numbers(columns.cpu),
        memory_mb=_numbers(columns.memory_mb),
        durations=_lists(columns.first_level, level),
        **needs,
    )
    return pa.table(
        {
            "name": _strings(columns.job_name),
            "arrival_ms": _numbers(columns.arrival_ms),
            "stages": _lists(columns.first_stage, stage),
            "weight": _numbers(columns.weight),
            "deadline_ms": _numbers(columns.deadline_ms),
        }
    )


def _struct(**fields: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


def _lists(start: Integers, values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(start, pa.int32()), values)


def _strings(names: Names) -> pa.Array:
    words = names.words.column if isinstance(names.words, _Words) else names.words
    return pa.array(words, pa.string()).take(pa.array(names.index))


def _numbers(values: Float64) -> pa.Array:
    return pa.array(values, pa.float64(), from_pandas=True)


def excess_of(
    metadata: pq.FileMetaData, size: int, most_values: int, most_bytes: int, to_read_more: str
) -> str | None:
    """The bound that decoding a file would exceed by its footer, in words; None where it fits.

    A small file may have fewer values, as a run of equal ones takes no room, and fewer bytes of
    decompressed pages. `to_read_more` ends the message of a bound that the caller sets.
    """
    chunks = [
        metadata.row_group(group).column(column)
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    ]
    values = sum(chunk.num_values for chunk in chunks)
    num_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
    for label, count, most, in_proportion in (
        ("values", values, most_values, FREE_VALUES + MAX_VALUES_PER_BYTE * size),
        ("bytes", num_bytes, most_bytes, most_unfolded(size)),
    ):
        if count > min(most, in_proportion):
            words = f"unfolds to {count:,} {label}, at most {min(most, in_proportion):,} are read"
            if most > in_proportion:
                return f"{words} from {size:,} bytes"
            return f"{words}{to_read_more}"
    return None
