"""Readers at the border: lines and what unfolds within named bounds, impossible times refused."""

from __future__ import annotations

import gzip
import io
import json
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decima.evaluation import timeline
from decima.evaluation.timeline import read_timeline
from decima.rl import run_folder
from decima.rl.errors import RunError
from decima.rl.run_folder import read_run
from tests.commands import decima, raises_one_line, refused
from traces import TraceError, codecs, load_trace, read_alibaba, read_trace
from traces.codecs import open_codec
from traces.errors import DamageError
from traces.files.errors import FileError
from traces.files.reading import LineBounds, read_lines, split_lines
from traces.spark_log import read_spark_logs

# --- lines -----------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.integers(1, 20), st.integers(1, 30))
def test_lines_do_not_depend_on_the_pieces(content: bytes, piece: int, longest: int) -> None:
    """They are those of `bytes.split`, but for a missing end; long ones are None."""
    pieces = [content[at : at + piece] for at in range(0, len(content), piece)]
    lines = list(split_lines(pieces, longest))
    *ended, last = content.split(b"\n")
    expected = [(line, True) for line in ended] + ([(last, False)] if last else [])
    assert lines == [(line if len(line) <= longest else None, end) for line, end in expected]


def test_a_line_without_end_takes_no_memory() -> None:
    """Sixteen MiB without a line end, a bound of 1 KiB: nothing is held."""
    pieces = (b"x" * 2**16 for _ in range(256))
    tracemalloc.start()
    assert list(split_lines(pieces, 1024)) == [(None, False)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**19


def test_the_bounds_on_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nbbbbb\n")
    assert list(read_lines(path, LineBounds(8, 5))) == [(1, b"a"), (2, b"bbbbb")]
    for bounds, words in (
        (LineBounds(8, 4), f"{path}:2: a line of more than 4 bytes"),
        (LineBounds(7, 9, "ask"), rf"{path}: more than 7 bytes of content .* \(ask\)"),
    ):
        with raises_one_line(FileError, match=words):
            list(read_lines(path, bounds))
    with pytest.raises(RunError, match="cannot read: No such file"):
        list(read_lines(tmp_path / "none", LineBounds(1), RunError))


def test_metrics_are_read_within_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And names that repeat in every line are held once."""
    (tmp_path / "config.json").write_text("{}")
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text("".join(f'{{"iteration": {n}, "a long name": 1.5}}\n' for n in range(9)))
    rows = read_run(tmp_path).metrics
    assert len({id(name) for row in rows for name in row}) == 2
    size = metrics.stat().st_size
    monkeypatch.setattr(run_folder, "METRICS_BOUNDS", LineBounds(size - 1))
    refused(
        decima("report", tmp_path, "-o", tmp_path / "a.html"),
        f"metrics.jsonl: more than {size - 1:,} bytes of content are not read",
    )


# --- what unfolds ----------------------------------------------------------------------------


def packed_lz4(content: bytes) -> bytes:
    """The LZ4Block framing of lz4-java, whose checksums nobody reads."""
    codec, framed = pa.Codec("lz4_raw"), b""
    for at in range(0, len(content), 2**22):
        block = content[at : at + 2**22]
        packed = codec.compress(block, asbytes=True)
        sizes = len(packed).to_bytes(4, "little") + len(block).to_bytes(4, "little")
        framed += b"LZ4Block\x25" + sizes + bytes(4) + packed
    return framed


def packed_snappy(content: bytes) -> bytes:
    """The stream of snappy-java."""
    codec, block = pa.Codec("snappy"), b"\x82SNAPPY\x00" + bytes(8)
    for at in range(0, len(content), 2**22):
        packed = codec.compress(content[at : at + 2**22], asbytes=True)
        block += len(packed).to_bytes(4, "big") + packed
    return block


PACK: dict[str, Callable[[bytes], bytes]] = {
    "zstd": lambda content: pa.Codec("zstd").compress(content, asbytes=True),
    "gzip": lambda content: gzip.compress(content, 9),
    "lz4": packed_lz4,
    "lz4 frames": lambda content: pa.Codec("lz4").compress(content, asbytes=True),
    "snappy": packed_snappy,
}
EMPTY_LINES = b"\n" * 6_000_000


def unfolded(content: bytes) -> tuple[bytes, str]:
    """What a codec gives, and the fault that it ends with."""
    kept: list[bytes] = []
    try:
        kept.extend(open_codec(io.BytesIO(content)))
    except DamageError as error:
        return b"".join(kept), str(error)
    return b"".join(kept), ""


@pytest.mark.parametrize("codec", PACK)
def test_lines_from_a_compressed_file_are_in_proportion_to_it(codec: str, tmp_path: Path) -> None:
    """Six million empty lines of a few KB: logs and tables are read no further than the bound."""
    path = tmp_path / "log"
    path.write_bytes(PACK[codec](EMPTY_LINES))
    most = codecs.FREE_LINES + codecs.MAX_LINES_PER_BYTE * path.stat().st_size
    assert most < len(EMPTY_LINES)
    kept, fault = unfolded(path.read_bytes())
    assert len(kept) <= most
    assert re.search(r"compressed bytes unfold to more than .* lines", fault)
    with pytest.raises(TraceError, match=r"not a Spark event log: .* unfold to more than"):
        read_spark_logs([path])
    with pytest.raises(TraceError, match=r"damaged or truncated: .* unfold to more than"):
        read_alibaba(path)


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_bytes_from_a_compressed_file_are_in_proportion_to_it(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line of ten million blanks; both codecs unfold a thousandfold."""
    monkeypatch.setattr(codecs, "FREE_BYTES", 10_000)
    monkeypatch.setattr(codecs, "MAX_RATIO", 500)
    content = PACK[codec](b" " * 10_000_000)
    kept, fault = unfolded(content)
    assert len(kept) <= 10_000 + 500 * len(content)
    assert "unfold to more than 500 times as many" in fault


@pytest.mark.parametrize("codec", PACK)
def test_what_is_as_large_as_usual_unfolds_as_before(codec: str) -> None:
    content = b"".join(b"%d,%d\n" % (n, n * n) for n in range(50_000))
    assert unfolded(PACK[codec](content)) == (content, "")


# --- times that no float64 resolves ------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrival_ms", "task_ms", "num_tasks", "words"),
    [
        (1e300, 500, 3, "arrival 1e+300 ms must be at most 9.0072e+15"),
        (2.0**53 + 2, 500, 3, "arrival 9007199254740994.0 ms must be at most"),
        (0, 3e38, 300, "duration 3e+38 ms must be at most 9.0072e+15"),
        (0, 1e16, 1, "duration 1e+16 ms must be at most"),
        (0, 1e15, 10, "work of 1e+16 ms must be at most 9.0072e+15"),
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".csv"])
def test_a_trace_has_times_that_are_resolved(
    arrival_ms: float, task_ms: float, num_tasks: int, words: str, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"t{suffix}"
    stage = {"name": "s", "num_tasks": num_tasks, "task_ms": task_ms}
    job = {"name": "a", "arrival_ms": arrival_ms, "stages": [stage]}
    text = json.dumps({"name": "t", "jobs": [job]})
    if suffix == ".csv":
        text = f"job,stage,arrival_ms,num_tasks,task_ms\na,s,{arrival_ms!r},{num_tasks},{task_ms}\n"
    path.write_text(text)
    refused(decima("traces", "info", path), words, "to a millisecond")


def test_the_last_time_that_is_resolved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"job,stage,arrival_ms,num_tasks,task_ms\na,s,{2.0**53!r},1,{2.0**53!r}\n")
    (job,) = load_trace(path).jobs
    assert job.arrival_ms == job.work_ms == 2**53


TIMELINE = {
    "policy": ["fifo"],
    "sequence": [0],
    "job": [0],
    "name": ["a"],
    "stage": [0],
    "executor": [0],
    "start_ms": [0.0],
    "finish_ms": [5.0],
}


def timeline_at(folder: Path, suffix: str, columns: dict[Any, Any]) -> Path:
    path, table = folder / f"tasks{suffix}", pa.table(dict(columns))
    if suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("place", ["column", "cell"])
def test_a_timeline_that_is_not_utf_8_is_one_line(place: str, suffix: str, tmp_path: Path) -> None:
    """Another column's name, a policy's name: Arrow checks neither in a Parquet file."""
    columns = {"xyzzy": [1]} if place == "column" else {"policy": ["xyzzy"]}
    path = timeline_at(tmp_path, suffix, TIMELINE | columns)
    path.write_bytes(path.read_bytes().replace(b"xyzzy", b"xyz\xe5\xc9"))
    with pytest.raises(FileError, match=r"tasks\.\w+: .*(?i:utf)"):
        read_timeline(path)


def test_a_timeline_is_read_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = timeline_at(tmp_path, ".parquet", TIMELINE)
    monkeypatch.setattr(timeline, "MAX_VALUES", 7)
    with pytest.raises(FileError, match=r"unfolds to \d+ values, at most 7 are read"):
        read_timeline(path)
    monkeypatch.setattr(timeline, "MAX_BYTES", 100)
    with pytest.raises(FileError, match="bytes, at most 100 are read"):
        read_timeline(path)


def test_a_parquet_file_unfolds_in_proportion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of a megabyte that is compressed to nothing."""
    path = timeline_at(tmp_path, ".parquet", TIMELINE | {"name": ["a" * 10**6]})
    monkeypatch.setattr(codecs, "FREE_BYTES", 0)
    monkeypatch.setattr(codecs, "MAX_RATIO", 10)
    for read in (read_timeline, read_trace):
        with pytest.raises((FileError, TraceError), match=r"unfolds to .* bytes|not a trace file"):
            read(path)
