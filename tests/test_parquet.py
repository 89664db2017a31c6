"""The project's trace file: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.commands import python, raises_one_line
from tests.junk import read_or_refused
from tests.test_trace_columns import flat
from traces import (
    Job,
    LevelDurations,
    Stage,
    Trace,
    TraceError,
    load_trace,
    read_trace,
    write_trace,
)
from traces.bounds import Bounds
from traces.files.names import clean
from traces.model import MAX_NAME
from traces.parquet import FORMAT, SCHEMA, VERSION

durations = st.lists(st.floats(2**-10, 2**24, width=32), max_size=4)
names = st.text(min_size=1, max_size=8).map(clean)


@st.composite
def stages(draw: st.DrawFn, index: int) -> Stage:
    """A stage with any legal parents among those before it."""
    levels = tuple(
        LevelDurations.of(
            executors,
            fresh_ms=draw(durations),
            first_ms=draw(durations),
            rest_ms=[1.0, *draw(durations)],
        )
        for executors in sorted(draw(st.sets(st.integers(1, 200), min_size=1, max_size=3)))
    )
    parents = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
    demand = st.none() | st.floats(0, 1e6)
    return Stage(
        f"{index}{draw(names)}",
        draw(st.integers(1, 10_000)),
        tuple(parents),
        levels,
        draw(demand),
        draw(demand),
        draw(st.just(1) | st.integers(1, 9)),
        draw(st.booleans()),
    )


@st.composite
def trace_strategy(draw: st.DrawFn) -> Trace:
    """Any small legal trace."""
    jobs = tuple(
        Job(
            f"{job}{draw(names)}",
            tuple(draw(stages(index)) for index in range(draw(st.integers(1, 4)))),
            draw(st.none() | st.floats(0, 1e12)),
            draw(st.just(1.0) | st.floats(0, 1e300, exclude_min=True)),
            draw(st.none() | st.floats(1e-300, 1e12)),
        )
        for job in range(draw(st.integers(1, 3)))
    )
    return Trace(draw(names), jobs, {"note": draw(names), "skipped": {"a": 1}})


@settings(max_examples=40)
@given(trace=trace_strategy())
def test_a_trace_survives_the_file_to_the_last_bit(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    write_trace(trace, str(path))
    again = read_trace(str(path))
    assert (again.name, again.metadata) == (trace.name, trace.metadata)
    for read, written in zip(flat(again.columns), flat(trace.columns), strict=True):
        np.testing.assert_array_equal(read, written)


@pytest.fixture
def small() -> Trace:
    return Trace("small", (Job("j", (Stage.fixed("a", 2, 5.0), Stage.fixed("b", 1, 7.0, [0]))),))


def rewrite(
    path: Path, rows: list[dict[str, Any]], header: Any = None, schema: pa.Schema = SCHEMA
) -> None:
    """Write rows that the project's own writer would never write."""
    if header is None:
        header = {"format": FORMAT, "version": VERSION, "name": "n", "metadata": {}}
    stored = {} if header == "absent" else {FORMAT: json.dumps(header)}
    pq.write_table(pa.Table.from_pylist(rows, schema=schema.with_metadata(stored)), path)


@pytest.mark.parametrize(
    ("header", "rule"),
    [
        ("absent", "not a trace file"),
        ({"format": FORMAT, "version": 99, "name": "n", "metadata": {}}, "version 99"),
        ({"format": "other", "version": 1, "name": "n", "metadata": {}}, "format 'other'"),
        ({"format": FORMAT, "version": VERSION}, "lacks its name or metadata"),
        ([1], "not a trace file"),
    ],
)
def test_foreign_and_newer_files_are_refused(
    tmp_path: Path, small: Trace, header: Any, rule: str
) -> None:
    path = tmp_path / "t.parquet"
    write_trace(small, path)
    rewrite(path, pq.read_table(path).to_pylist(), header)
    with pytest.raises(TraceError, match=rule) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}: ")


LEVEL: dict[str, Any] = {"executors": 1, "fresh_ms": [], "first_ms": [], "rest_ms": [1.0]}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"parents": [None]}, "is null"),
        ({"durations": [None]}, "is null"),
        ({"durations": None}, "no task duration"),
        ({"durations": [LEVEL | {"rest_ms": [None]}]}, "nan ms must be positive"),
        ({"cpu": float("nan")}, "cpu nan must be finite"),
    ],
)
def test_rules_hold_for_files_of_other_writers(
    tmp_path: Path, small: Trace, change: dict[str, Any], rule: str
) -> None:
    path = tmp_path / "t.parquet"
    write_trace(small, path)
    rows = pq.read_table(path).to_pylist()
    rows[0]["stages"][0] |= change
    rewrite(path, rows)
    with pytest.raises(TraceError, match=rule):
        read_trace(path)


def test_nulls_where_the_schema_allows_none_are_refused(tmp_path: Path) -> None:
    """A writer with a laxer schema cannot smuggle in a job without a name or a missing stage."""
    path = tmp_path / "t.parquet"
    lax = pa.schema([field.with_nullable(True) for field in SCHEMA])
    rows: list[dict[str, Any]] = [
        {"name": None, "stages": []},
        {"name": "j", "stages": [None]},
        {"name": "j"},
    ]
    for row in rows:
        rewrite(path, [row], schema=lax)
        with pytest.raises(TraceError, match=r"null|has no stage"):
            read_trace(path)


def test_columns_of_another_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    rewrite(path, [{"name": "j"}], schema=pa.schema([pa.field("name", pa.string())]))
    with pytest.raises(TraceError, match="damaged trace file"):
        read_trace(path)


def test_missing_and_unreadable_files_are_one_line(tmp_path: Path) -> None:
    text = tmp_path / "text.parquet"
    text.write_text("hello")
    for path in (tmp_path / "none.parquet", tmp_path, text):
        with raises_one_line(TraceError) as caught:
            read_trace(path)
        assert str(path) in str(caught.value)


@settings(max_examples=100)
@given(data=st.data())
def test_damage_never_escapes_as_another_error(data: st.DataObject, tmp_path: Path) -> None:
    """Cut or changed anywhere, a file is refused, or read as a trace; nothing else happens."""
    path = tmp_path / "t.parquet"
    write_trace(Trace("t", (Job("j", (Stage.fixed("a", 2, 5.0),)),)), path)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(content))
    with read_or_refused(TraceError):
        assert isinstance(read_trace(path), Trace)


def test_a_failed_write_leaves_no_litter(tmp_path: Path, small: Trace) -> None:
    write_trace(small, tmp_path / "t.parquet")
    for path in (tmp_path / "none" / "t.parquet", tmp_path / "t.parquet" / "below.parquet"):
        with pytest.raises(TraceError, match="cannot write"):
            write_trace(small, path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]


# --- files that unfold ---------------------------------------------------------------------------


def bomb(path: Path, samples: int) -> None:
    """A trace of one stage whose durations are all alike, which takes some hundred bytes."""
    level = LevelDurations.of(1, rest_ms=np.ones(samples, np.float32))
    write_trace(Trace("n", (Job("j", (Stage("a", 1, (), (level,)),)),)), path)


def test_a_file_of_several_row_groups_is_read(tmp_path: Path) -> None:
    """Another writer may cut it; ours writes one group, however many jobs there are."""
    trace = load_trace("random-dag")
    path, cut = tmp_path / "t.parquet", tmp_path / "cut.parquet"
    write_trace(trace, path)
    pq.write_table(pq.read_table(path), cut, row_group_size=7)
    assert pq.read_metadata(path).num_row_groups == 1
    assert pq.read_metadata(cut).num_row_groups == 15
    again = read_trace(cut)
    for own, other in zip(flat(again.columns), flat(trace.columns), strict=True):
        np.testing.assert_array_equal(own, other)


def test_a_small_file_that_unfolds_to_much_is_refused_unread(tmp_path: Path) -> None:
    """Kilobytes of 15 million equal durations: reading takes no more than the file itself.

    Though the bounds that the caller gives would let it pass.
    """
    path = tmp_path / "bomb.parquet"
    bomb(path, 15_000_000)
    assert path.stat().st_size < 20_000
    assert Bounds().values == 100_000_000
    # The peak that `resource` has begins with that of the process which started this one.
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from traces import read_trace, TraceError\nfrom traces.bounds import Bounds\n"
        "lines = Path('/proc/self/status').read_text\n"
        "def peak(): return int(lines().partition('VmHWM:')[2].split()[0]) // 1024\n"
        "before = peak()\n"
        "try: read_trace(Path(sys.argv[1]), Bounds(values=100_000_000))\n"
        "except TraceError as error: print(error, '|', peak() - before)\n"
    )
    done = python("-c", code, str(path))
    message, _, grown_mb = done.rpartition("|")
    assert "unfolds to 15,000,0" in message
    assert message.strip().endswith(f"are read from {path.stat().st_size:,} bytes")
    assert int(grown_mb) < 25


def test_bounds_can_be_raised_and_are_named(tmp_path: Path, small: Trace) -> None:
    """Values, bytes, stages in all and of a job; the file as it lies."""
    path = tmp_path / "t.parquet"
    write_trace(small, path)
    for limits, words in (
        (Bounds(values=5), "values, at most 5"),
        (Bounds(content_bytes=5), "bytes, at most 5"),
        (Bounds(file_bytes=5), "bytes, at most 5"),
        (Bounds(stages=1), "2 stages and executor levels, at most 1"),
        (Bounds(stages_per_job=1), "job 'j': 2 stages, at most 1"),
    ):
        with pytest.raises(TraceError, match=words):
            read_trace(path, limits)
    bomb(path, 1000)
    assert len(read_trace(path, Bounds(values=2000)).jobs) == 1


def test_a_long_name_that_repeats_takes_its_length_once(tmp_path: Path) -> None:
    """3,000 stages named by one megabyte would take three gigabytes."""
    path = tmp_path / "t.parquet"
    stage = {"name": "x" * 2**20, "num_tasks": 1, "parents": [], "durations": [LEVEL]}
    rewrite(path, [{"name": f"j{index}", "stages": [stage]} for index in range(300)])
    before = pa.default_memory_pool().max_memory()
    trace = read_trace(path)
    assert len(trace.jobs[0].stages[0].name) == MAX_NAME
    assert pa.default_memory_pool().max_memory() - before < 50 * 2**20
