"""Readers at the border: lines and what unfolds within named bounds, impossible times refused."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from decima.cli.main import main
from decima.evaluation import timeline
from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import evaluate
from decima.evaluation.timeline import read_timeline
from decima.report import comparison_sections, results_of
from decima.report.training import training_section
from decima.rl import run_folder
from decima.rl.errors import RunError
from decima.rl.run_folder import read_run
from decima.spark import decision_log
from decima.spark.decision_log import read_decision_log
from decima.spark.errors import AttachError
from decima.spark.model_card import trained_slots
from decima.spark.review import review as reviewed
from deeprm.errors import DeepRmError
from deeprm.study import Models
from tests.commands import refused
from traces import (
    Arrivals,
    Job,
    Stage,
    Trace,
    TraceError,
    codecs,
    load_trace,
    read_alibaba,
    read_trace,
)
from traces.arrivals import read_arrivals
from traces.codecs import open_codec
from traces.dataset import write_dataset
from traces.errors import DamageError
from traces.files.errors import FileError
from traces.files.lines import LineBounds, read_lines, split_lines
from traces.spark_log import read_spark_logs

# --- lines -----------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.integers(1, 20), st.integers(1, 30))
def test_lines_do_not_depend_on_the_pieces(content: bytes, piece: int, longest: int) -> None:
    """They are those of `bytes.split`, but for a missing end; long ones are None."""
    pieces = [content[at : at + piece] for at in range(0, len(content), piece)]
    found = list(split_lines(pieces, longest))
    *ended, last = content.split(b"\n")
    expected = [(line, True) for line in ended] + ([(last, False)] if last else [])
    assert found == [(line if len(line) <= longest else None, end) for line, end in expected]


def test_a_line_without_end_takes_no_memory() -> None:
    """Sixteen MiB without a line end, a bound of 1 KiB: nothing is held."""
    pieces = (b"x" * 2**16 for _ in range(256))
    tracemalloc.start()
    assert list(split_lines(pieces, 1024)) == [(None, False)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**19


def test_the_bounds_on_lines_are_named(tmp_path: Path) -> None:
    """Of one line, of a file, of a device whose size says nothing."""
    path = tmp_path / "lines"
    path.write_bytes(b"a\nbbbbb\n")
    assert list(read_lines(path, LineBounds(8, 5))) == [(1, b"a"), (2, b"bbbbb")]
    for bounds, words in (
        (LineBounds(8, 4), f"{path}:2: a line of more than 4 bytes is not read"),
        (LineBounds(7, 9, "ask"), f"{path}: more than 7 bytes of content are not read (ask)"),
    ):
        with pytest.raises(FileError) as caught:
            list(read_lines(path, bounds))
        assert str(caught.value) == words
    with pytest.raises(FileError, match="more than 100,000 bytes"):
        list(read_lines(Path("/dev/zero"), LineBounds(100_000)))
    with pytest.raises(RunError, match="cannot read: No such file"):
        list(read_lines(tmp_path / "none", LineBounds(1), RunError))


def test_a_decision_log_is_read_within_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all its files together; one long line is one more."""
    path = decision_log_at(tmp_path)
    size = path.stat().st_size
    (tmp_path / "log.jsonl.1").write_bytes(path.read_bytes())
    monkeypatch.setattr(decision_log, "MAX_BYTES", 2 * size)
    assert len(read_decision_log(path).plans) == 2
    monkeypatch.setattr(decision_log, "MAX_BYTES", 2 * size - 1)
    refused(review(path), f"more than {size - 1:,} bytes of content are not read")
    path.write_bytes(b"1" * 2**25)
    refused(review(path), "log.jsonl:1: a line of more than 16,777,216 bytes is not read")


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
        CliRunner().invoke(main, ["report", str(tmp_path), "-o", str(tmp_path / "a.html")]),
        f"metrics.jsonl: more than {size - 1:,} bytes of content are not read",
    )


# --- what unfolds ----------------------------------------------------------------------------


def packed_lz4(content: bytes) -> bytes:
    """The LZ4Block framing of lz4-java, whose checksums nobody reads."""
    codec, found = pa.Codec("lz4_raw"), b""
    for at in range(0, len(content), 2**22):
        block = content[at : at + 2**22]
        packed = codec.compress(block, asbytes=True)
        sizes = len(packed).to_bytes(4, "little") + len(block).to_bytes(4, "little")
        found += b"LZ4Block\x25" + sizes + bytes(4) + packed
    return found


def packed_snappy(content: bytes) -> bytes:
    """The stream of snappy-java."""
    codec, found = pa.Codec("snappy"), b"\x82SNAPPY\x00" + bytes(8)
    for at in range(0, len(content), 2**22):
        packed = codec.compress(content[at : at + 2**22], asbytes=True)
        found += len(packed).to_bytes(4, "big") + packed
    return found


PACK: dict[str, Callable[[bytes], bytes]] = {
    "zstd": lambda content: pa.Codec("zstd").compress(content, asbytes=True),
    "gzip": lambda content: gzip.compress(content, 9),
    "lz4": packed_lz4,
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
    """A table of numbers, whatever its codec."""
    content = b"".join(b"%d,%d\n" % (n, n * n) for n in range(50_000))
    assert unfolded(PACK[codec](content)) == (content, "")


# --- decision logs ---------------------------------------------------------------------------

HEAD = {
    "format": "decima-decisions",
    "version": 2,
    "run": "ab",
    "mode": "exact",
    "policy": "es_rule",
    "parameters": {},
    "ran": "es_rule",
}
PLAN = {
    "plan": 1,
    "time_ms": 1000,
    "applied_ms": [1000, 1003],
    "slots": 4,
    "by": "es_rule",
    "fault": None,
    "sets": [[0, 0, "k1", 4, 1, 2, False]],
    "chosen": [0],
    "limits": {"k1": 3},
    "in_force": True,
}
JOB: dict[str, Any] = {
    "job": "k1",
    "name": "n1",
    "arrival_ms": 1000,
    "completion_ms": 6000,
    "own_ms": 100,
    "stages": [
        {"num_tasks": 4, "parents": [], "mean_ms": 1000.0},
        {"num_tasks": 2, "parents": [0], "mean_ms": None},
    ],
}


def decision_log_at(folder: Path, *rows: Any) -> Path:
    path = folder / "log.jsonl"
    lines = [json.dumps(row) for row in rows or (HEAD, PLAN, JOB)]
    path.write_text("\n".join(lines) + "\n")
    return path


def review(path: Path) -> Any:
    return CliRunner().invoke(main, ["spark", "review", str(path)])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"completion_ms": 999}, "completion_ms 999 lies before arrival_ms 1000"),
        ({"completion_ms": -6000}, "completion_ms is -6000: a whole number from 0"),
        ({"own_ms": -1}, "own_ms is -1: a whole number from 0"),
        ({"own_ms": 5001}, "own_ms 5001 is more than the 5000 ms that it took"),
        ({"own_ms": -1e300}, "own_ms is -1e+300: a whole number"),
        ({"own_ms": 2**64}, "own_ms is 18446744073709551616: a whole number"),
        ({"arrival_ms": 2**53 + 1}, "arrival_ms is 9007199254740993: a whole number from 0 to"),
        ({"arrival_ms": "1000"}, "arrival_ms is '1000': a whole number"),
        ({"arrival_ms": True}, "arrival_ms is True: a whole number"),
        ({"job": 7}, "job is 7: text is needed"),
        ({"name": None}, "name is None: text is needed"),
    ],
)
def test_a_logged_job_is_one_that_can_be(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = decision_log_at(tmp_path, HEAD, PLAN, JOB | change)
    refused(review(path), f"{path}: line 3: ", words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mean_ms": 1e18}, "mean_ms is 1e+18: a time from 0 to 9,007,199,254,740,992"),
        ({"mean_ms": -1}, "mean_ms is -1: a time"),
        ({"mean_ms": "1"}, "mean_ms is '1': a time"),
        ({"num_tasks": 2**63}, "num_tasks is 9223372036854775808: a whole number"),
        ({"num_tasks": 2.5}, "num_tasks is 2.5: a whole number"),
        ({"num_tasks": 0}, "0 tasks, a stage has between 1 and"),
        ({"parents": [0]}, "is its own parent"),
        ({"parents": 2}, "damaged: TypeError"),
    ],
)
def test_a_logged_stage_is_one_that_can_be(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = decision_log_at(tmp_path, HEAD, PLAN, JOB | {"stages": [JOB["stages"][0] | change]})
    refused(review(path), f"{path}: line 3: ", words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time_ms": 2**64}, "time_ms is 18446744073709551616: a whole number"),
        ({"time_ms": 1.5}, "time_ms is 1.5: a whole number"),
        ({"slots": -1}, "slots is -1"),
        ({"sets": [[0, 0, {"k1": 1}, 4, 1, 2, False]]}, "sets is {'k1': 1}: text is needed"),
        ({"sets": [[0, 0, "k1", 4, 1, 2**70, False]]}, "sets is 1180591620717411303424"),
        ({"chosen": [None]}, "chosen is None"),
        ({"limits": {"k1": -3}}, "limits is -3"),
        ({"applied_ms": 5}, "damaged: TypeError"),
    ],
)
def test_a_logged_plan_is_one_that_can_be(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = decision_log_at(tmp_path, HEAD, PLAN | change, JOB)
    refused(review(path), f"{path}: line 2: ", words)


def test_a_decision_log_with_names_that_no_file_holds(tmp_path: Path) -> None:
    """Lone surrogates and escape sequences are shown as escapes, in the picture as well."""
    odd = "\ud800\x1b[31m"
    rows = (HEAD, PLAN | {"sets": [[0, 0, odd, 4, 1, 2, False]]}, JOB | {"job": odd, "name": odd})
    path = decision_log_at(tmp_path, *rows)
    picture = tmp_path / "slots.svg"
    result = CliRunner().invoke(main, ["spark", "review", str(path), "--draw", str(picture)])
    assert result.exit_code == 0, result.output
    assert "ud800" in picture.read_text()
    with pytest.raises(AttachError, match="not a decision log"):
        read_decision_log(decision_log_at(tmp_path, "x"))


# --- times that no float64 resolves ------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrival_ms", "task_ms", "num_tasks", "words"),
    [
        (1e300, 500, 3, "arrival 1e+300 ms must lie in 0..9.0072e+15"),
        (2.0**53 + 2, 500, 3, "arrival 9007199254740994.0 ms must lie in"),
        (0, 3e38, 300, "duration 3e+38 ms must be positive and at most 9.0072e+15"),
        (0, 1e16, 1, "duration 1e+16 ms must be positive"),
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
    refused(CliRunner().invoke(main, ["traces", "info", str(path)]), words, "to a millisecond")


def test_the_last_time_that_is_resolved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"job,stage,arrival_ms,num_tasks,task_ms\na,s,{2.0**53!r},1,{2.0**53!r}\n")
    (job,) = load_trace(path).jobs
    assert job.arrival_ms == job.work_ms == 2**53


def test_arrivals_are_resolved(tmp_path: Path) -> None:
    trace = Trace("t", (Job("j", (Stage.fixed("a", 2, 5.0),)),))
    path = tmp_path / "a.csv"
    path.write_text("arrival_ms,job\n0,j\n1e16,j\n")
    with pytest.raises(TraceError, match=r"a\.csv:3: arrival_ms 1e16: must be at most 9\.0"):
        read_arrivals(path, trace)
    with pytest.raises(TraceError, match=r"arrival 1e\+16 ms must lie in"):
        Arrivals(np.array([1e16]), np.zeros(1, np.int32))


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
    path = folder / f"tasks{suffix}"
    table = pa.table(dict(columns))
    if suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_timeline_has_times_that_are_resolved(suffix: str, tmp_path: Path) -> None:
    assert read_timeline(timeline_at(tmp_path, suffix, TIMELINE)).num_rows == 1
    late = TIMELINE | {"finish_ms": [1e16]}
    with pytest.raises(FileError, match=r"from 0\.0 to 1e\+16 ms: .* end by 9\.0072e\+15 ms"):
        read_timeline(timeline_at(tmp_path, suffix, late))


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


# --- result files ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """An evaluation of two sequences under two policies, as JSON."""
    config = EvaluationConfig(
        trace="short-dag", policies=("fifo", "strict_fair"), executors=4, jobs=3, sequences=2
    )
    found: dict[str, Any] = json.loads(json.dumps(evaluate(config).to_json()))
    return found


def with_value(content: Any, value: Any, *path: Any) -> Any:
    """A copy of `content` with another value at `path`."""
    copy = json.loads(json.dumps(content))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


FIFO = ("policies", "fifo")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ((*FIFO, "jct_s", 0), [], "completion times of [0, 3] of [3, 3] jobs"),
        ((*FIFO, "jct_s", 0), [1.0], "of 4 of 6 jobs, where 0 have not arrived"),
        ((*FIFO, "jct_s", 0, 1), -1.0, "jct_s.0.1: Input should be greater than or equal to 0"),
        ((*FIFO, "jct_s", 0, 1), 1e300, "jct_s.0.1: Input should be less than or equal to 9"),
        ((*FIFO, "median_jct_s", "per_sequence", 0), 1e300, "median_jct_s.per_sequence.0"),
        ((*FIFO, "avg_jct_s", "per_sequence", 0), 0, "avg_jct_s.per_sequence.0"),
        ((*FIFO, "fairness", "per_sequence", 0), 1.01, "fairness.per_sequence.0"),
        ((*FIFO, "utilisation", "per_sequence", 0), -0.5, "utilisation.per_sequence.0"),
        ((*FIFO, "idle_executor_s"), -6.0, "idle_executor_s"),
        ((*FIFO, "busy_executor_s"), 1e300, "busy_executor_s"),
        ((*FIFO, "unfinished"), -1, "unfinished"),
        (("sequences", 0, "arrival_s", 0), -1.0, "sequences.0.arrival_s.0"),
        (("sequences", 0, "arrival_s", 0), 1e13, "sequences.0.arrival_s.0"),
        (("config", "executors"), 10**9, "config.executors"),
    ],
)
def test_a_result_file_holds_what_can_be(
    results: dict[str, Any], path: tuple[Any, ...], value: Any, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "r.json"
    file.write_text(json.dumps(with_value(results, value, *path)))
    page = tmp_path / "p.html"
    refused(CliRunner().invoke(main, ["report", str(file), "-o", str(page)]), words)
    assert not page.exists()


def test_a_result_file_with_names_that_no_page_holds(
    results: dict[str, Any], tmp_path: Path
) -> None:
    """Lone surrogates are shown as escapes."""
    odd = with_value(results, "odd \ud800", "sequences", 0, "name", 0)
    odd = with_value(odd, "odder \ud800", "config", "trace")
    (tmp_path / "r.json").write_text(json.dumps(odd))
    page = tmp_path / "p.html"
    result = CliRunner().invoke(main, ["report", str(tmp_path / "r.json"), "-o", str(page)])
    assert result.exit_code == 0, result.output
    assert "odder \\ud800" in page.read_text()


def test_a_dataset_names_files_that_can_be(tmp_path: Path) -> None:
    """A lone surrogate is no part of a file name, nor is a terminal's escape."""
    write_dataset(Trace("t", (Job("j", (Stage.fixed("a", 2, 5.0),)),)), tmp_path / "set")
    manifest = tmp_path / "set" / "trace.json"
    content = json.loads(manifest.read_text())
    for name in ("\ud800", "\x1b[31m", "a" * 10_000, "..", ""):
        content["parts"].append({"file": name, "jobs": 1})
        manifest.write_text(json.dumps(content))
        info = CliRunner().invoke(main, ["traces", "info", str(tmp_path / "set")])
        refused(info, "trace.json: ", "is no part of it")
        del content["parts"][-1]


# --- what other readers do with damage ------------------------------------------------------------


@pytest.mark.parametrize("settings", [1.5, "x", True, {"executors": 3}, [3], [{"executors": [3]}]])
def test_a_card_tells_sizes_only_where_it_has_some(settings: Any) -> None:
    """A model's header is JSON that anybody may have written."""
    assert trained_slots({"config": {"workload": {"settings": settings}}}) is None


def test_a_run_with_names_that_no_page_holds(tmp_path: Path) -> None:
    """Lone surrogates in the settings and in the names of figures."""
    (tmp_path / "config.json").write_text('{"iterations": "\\ud800"}')
    row = {"iteration": 0, "validation/score": -3.0, "validation/above_\ud800": 5.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    page = tmp_path / "p.html"
    result = CliRunner().invoke(main, ["report", str(tmp_path), "-o", str(page)])
    assert result.exit_code == 0, result.output
    assert "\\ud800" in page.read_text("utf-8")


@pytest.mark.parametrize(
    "content", [{"a": 3}, {"a": [3]}, {"a": [{"iteration": "3"}]}, {"a": [{"x": 3}]}, []]
)
def test_deeprm_s_curves_are_rows_of_numbers(content: Any, tmp_path: Path) -> None:
    (tmp_path / "curves.json").write_text(json.dumps(content))
    with pytest.raises(DeepRmError, match=r"curves\.json: "):
        Models(tmp_path).curves()


JUNK: tuple[Any, ...] = (
    None,
    True,
    "",
    [],
    {},
    -1,
    0.5,
    1e300,
    2**64,
    10**400,
    "\ud800",
    "\x1b[31m",
    [[]],
    [1, 2],
)


def changed(value: Any, rng: random.Random) -> Any:
    """A copy of `value` with one part of it, found by walking down, replaced or gone."""
    copy = json.loads(json.dumps(value))
    place, key = copy, rng.choice(list(copy))
    while isinstance(place[key], dict | list) and place[key] and rng.random() < 0.85:
        place = place[key]
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
    if rng.random() < 0.2:
        del place[key]
    else:
        place[key] = rng.choice(JUNK)
    return copy


def damaged(content: str, rng: random.Random) -> bytes:
    """Cut short, or with a few bytes changed."""
    found = bytearray(content.encode())
    if rng.random() < 0.5:
        return bytes(found[: rng.randrange(len(found))])
    for _ in range(3):
        found[rng.randrange(len(found))] = rng.randrange(256)
    return bytes(found)


def read_or_refuse(read: Callable[[], object]) -> None:
    """The only error is one of ours, and one line that any terminal shows."""
    try:
        read()
    except (AttachError, FileError, RunError, TraceError) as error:
        text = str(error)
        assert "\n" not in text
        assert "codec can't" not in text


@pytest.mark.parametrize("seed", range(60))
def test_damage_of_any_kind_never_gives_a_traceback(
    seed: int, results: dict[str, Any], tmp_path: Path
) -> None:
    """Values of wrong types, huge numbers, empty lists, truncations: decision logs, results, runs,
    traces, datasets.
    """
    rng = random.Random(seed)  # noqa: S311 -- no secret
    log = [HEAD, PLAN, JOB]
    log[rng.randrange(3)] = changed(rng.choice(log), rng)
    path = decision_log_at(tmp_path, *log)
    if seed % 3 == 0:
        path.write_bytes(damaged(path.read_text(), rng))
    read_or_refuse(lambda: reviewed(read_decision_log(path), ("fifo",)))
    read_or_refuse(lambda: comparison_sections([results_of(changed(results, rng), "here")]))

    (tmp_path / "config.json").write_text(json.dumps(changed({"iterations": 3, "seed": 1}, rng)))
    rows = [{"iteration": n, "validation/score": -3.0, "loss": 1.0 + n} for n in range(3)]
    rows[1] = changed(rows[1], rng)
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    read_or_refuse(lambda: training_section(tmp_path))

    stage = {"name": "s", "num_tasks": 3, "task_ms": [500, 2]}
    trace = {"name": "t", "jobs": [{"name": "a", "arrival_ms": 0, "stages": [stage]}]}
    file = tmp_path / "t.json"
    file.write_text(json.dumps(changed(trace, rng)))
    read_or_refuse(lambda: load_trace(file))
    folder = tmp_path / "set"
    write_dataset(Trace("t", (Job("j", (Stage.fixed("a", 2, 5.0),)),)), folder)
    manifest = folder / "trace.json"
    manifest.write_text(json.dumps(changed(json.loads(manifest.read_text()), rng)))
    read_or_refuse(lambda: load_trace(folder))
