"""Event logs are untrusted: damage is counted, the rest kept, nothing else than `TraceError`."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decima.whatif.replay import read_recording
from tests import spark_events
from tests.commands import decima, raises_one_line, succeeded
from tests.junk import damaged, read_or_refused
from traces import TraceError, read_trace, write_trace
from traces.bounds import Bounds
from traces.codecs import open_codec
from traces.spark_log import GroupBy, application, read_spark_logs
from traces.spark_log.files import in_order, missing_parts

LOGS = Path(__file__).parent / "data" / "spark_logs"
CODECS = ("spark-4.3-zstd", "spark-4.3-lz4", "spark-4.3-snappy", "spark-3.3-lz4")


def file_of(name: str) -> Path:
    (path,) = (LOGS / name).iterdir()
    return path


def plain(name: str) -> bytes:
    with file_of(name).open("rb") as stream:
        return b"".join(open_codec(stream))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A copy of a plain log of 65 lines that a test may damage."""
    return Path(shutil.copy(file_of("spark-3.5-plain"), tmp_path / "app"))


def message(*paths: Path) -> str:
    """The one line that reading `paths` ends with."""
    with raises_one_line(TraceError) as caught:
        read_spark_logs(paths)
    return str(caught.value)


def test_files_that_are_no_log(tmp_path: Path) -> None:
    contents = {
        "empty": (b"", "the file is empty"),
        "text": (b"hello\nworld\n", ":1: not a Spark event log: the line is no Spark event"),
        "json": (b'\n{"name": "x"}\n', ":2: not a Spark event log: the line is no Spark event"),
        "binary": (bytes(range(256)) * 100, ":1: not a Spark event log"),
        "lzf": (b"ZV\x01\x00\x05\x00\x05hello", "lzf compression is not supported"),
        "zstd": (b"\x28\xb5\x2f\xfd1234", "zstd"),
    }
    for name, (content, words) in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert message(path).startswith(str(path))
        assert words in message(path)


def test_paths_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "eventlog_v2_app").mkdir()
    assert message(tmp_path / "missing").endswith("cannot read: No such file or directory")
    assert "the folder holds no event log" in message(tmp_path / "folder")
    assert message(tmp_path / "eventlog_v2_app").endswith("holds no file events_N_...")
    assert message(tmp_path / "pipe").endswith("neither a file nor a folder")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = file_of("spark-4.3-zstd")
    monkeypatch.setattr(Path, "open", refuse)
    assert message(path) == f"{path}: cannot read: Permission denied"


def test_a_log_without_a_whole_job_says_why_there_is_nothing(log: Path) -> None:
    """Cut before the first job, and before its end."""
    content = log.read_bytes()
    log.write_bytes(content[: content.index(b'{"Event":"SparkListenerJobEnd"')])
    assert message(log).endswith("(left out: 1 not finished when the log ends)")
    log.write_bytes(b"\n".join(content.split(b"\n")[:6]) + b"\n")
    assert message(log) == f"{log}: the log has no job"


def test_a_corrupt_line_is_named_and_the_rest_kept(log: Path) -> None:
    """A byte that is no UTF-8: its task is missing, everything else is there."""
    rows = log.read_bytes().split(b"\n")
    number = next(i for i, row in enumerate(rows) if b"SparkListenerTaskEnd" in row[:40])
    rows[number] = rows[number][:60] + b"\xff" + rows[number][61:]
    log.write_bytes(b"\n".join(rows))
    trace, summary = read_spark_logs([log])
    assert summary.lines_skipped == 1
    assert summary.faults == [f"{log}:{number + 1}: SparkListenerTaskEnd is not valid JSON"]
    assert (summary.tasks, summary.tasks_missing, trace.jobs[0].num_tasks) == (17, 1, 18)


@pytest.mark.parametrize(
    "junk",
    [b"[" * 100_000, b'{"a":' * 50_000, b"9" * 10_000, b'"\\ud800"', b"null", b"1e999", b"-1"],
    ids=["deep list", "deep object", "long number", "surrogate", "null", "infinity", "negative"],
)
def test_junk_in_place_of_a_job_s_stages(log: Path, junk: bytes) -> None:
    log.write_bytes(log.read_bytes().replace(b'"Stage Infos":[', b'"Stage Infos":[' + junk + b","))
    with pytest.raises(TraceError, match="the log has no job"):
        read_spark_logs([log])


def test_an_event_beyond_all_bounds_is_skipped(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traces.spark_log.events.MAX_LINE_BYTES", 100_000)
    rows = log.read_bytes().split(b"\n")
    rows.insert(30, b'{"Event":"SparkListenerTaskEnd","Stage ID":' + b"1" * 300_000 + b"}")
    log.write_bytes(b"\n".join(rows))
    _, summary = read_spark_logs([log])
    assert summary.tasks == 18
    assert summary.faults == [f"{log}:31: the event is longer than 0 MiB"]


def test_absurd_counts_are_not_believed(log: Path) -> None:
    claims = b'"Number of Tasks":1000000000,'
    log.write_bytes(log.read_bytes().replace(b'"Number of Tasks":3,', claims))
    trace, _ = read_spark_logs([log])
    assert trace.jobs[0].num_tasks == 18


@pytest.mark.parametrize("name", CODECS)
def test_a_compressed_file_cut_short_keeps_its_prefix(name: str, tmp_path: Path) -> None:
    """Half of the file, or all but its last bytes: whole lines of the same content."""
    whole = file_of(name).read_bytes()
    content = plain(name)
    path = tmp_path / "cut"
    for size in (len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:size])
        kept: list[bytes] = []
        with path.open("rb") as stream, pytest.raises(Exception, match=name.split("-")[2]):
            kept.extend(open_codec(stream))
        assert content.startswith(b"".join(kept))
        assert size < len(whole) // 2 + 1 or len(b"".join(kept)) > len(content) // 2


def test_codecs_give_what_spark_wrote(tmp_path: Path) -> None:
    """Every line is whole; the same content compressed twice over is read twice over."""
    for name in CODECS:
        content = plain(name)
        assert all(json.loads(row)["Event"] for row in content.splitlines())
        twice = tmp_path / "twice"
        twice.write_bytes(file_of(name).read_bytes() * 2)
        with twice.open("rb") as stream:
            assert b"".join(open_codec(stream)) == content * 2
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(plain("spark-3.5-plain")))
    assert read_spark_logs([packed])[1].tasks == 18


def test_a_log_that_another_tool_has_rewritten(log: Path) -> None:
    """Blanks between the fields, fields of a job in another order: the same trace."""
    as_written, _ = read_spark_logs([log])
    rows = []
    for row in log.read_text().splitlines():
        name, *fields = json.loads(row).items()
        rows.append(json.dumps(dict([name, *reversed(fields)])))
    log.write_text("\n".join(rows))
    rewritten, summary = read_spark_logs([log])
    assert summary.lines_skipped == 0
    assert [stage.parents for stage in rewritten.jobs[0].stages] == [
        stage.parents for stage in as_written.jobs[0].stages
    ]
    assert rewritten.jobs[0].work_ms == as_written.jobs[0].work_ms


def test_a_rolled_log_begins_with_its_latest_compaction(tmp_path: Path) -> None:
    """A compacted file stands for those up to its number, and numbers are no text: 10 after 9."""
    folder = tmp_path / "eventlog_v2_app"
    folder.mkdir()
    pieces = plain("spark-3.5-plain").splitlines(keepends=True)
    (folder / "appstatus_app.inprogress").touch()
    (folder / ".events_9_app.crc").write_bytes(b"crc")
    (folder / "events_1_app").write_bytes(b"".join(pieces[:20]))
    (folder / "events_9_app").write_bytes(b"not to be read")
    (folder / "events_9_app.compact").write_bytes(b"".join(pieces[:30]))
    (folder / "events_10_app").write_bytes(b"".join(pieces[30:]))
    _, summary = read_spark_logs([folder])
    assert (summary.tasks, summary.lines_skipped, summary.parts_missing) == (18, 0, 0)


@pytest.mark.parametrize(
    ("kept", "words", "count"),
    [
        ("1 2 3", None, 0),
        ("2 3", "part 1 of at least 3 is missing", 1),
        ("1 3", "part 2 of at least 3 is missing", 1),
        ("9.compact 10", None, 0),
        ("1 9.compact 11 14", "parts 10, 12 to 13 of at least 14 are missing", 3),
        ("2 4 6 8 999999999", "parts 1, 3, 5, ... of at least 999999999 are missing", 999_999_994),
    ],
)
def test_the_missing_parts_of_a_rolled_log(kept: str, words: str | None, count: int) -> None:
    """Counted from 1 or from the latest compaction; the words stay short."""
    parts = (part.partition(".") for part in kept.split())
    names = in_order([f"events_{number}_app{dot}{suffix}" for number, dot, suffix in parts])
    missing = missing_parts(names)
    assert missing == (None if words is None else (count, words))


def test_a_rolled_log_without_its_first_part_is_said_to_be_cut(tmp_path: Path) -> None:
    """The first part named the executors: the slots of what is left are those seen at once."""
    whole = next((LOGS / "spark-4.3-rolled").iterdir())
    folder = Path(shutil.copytree(whole, tmp_path / whole.name))
    _, complete = read_spark_logs([folder])
    assert (complete.parts_missing, complete.slots_inferred, complete.incomplete) == (0, 0, [])
    (folder / f"events_1_{folder.name.removeprefix('eventlog_v2_')}.zstd").unlink()
    _, summary = read_spark_logs([tmp_path])
    assert (summary.parts_missing, summary.slots_inferred) == (1, 1)
    lines = list(summary.lines())
    assert f"incomplete: {folder}: part 1 of at least 4 is missing" in lines
    assert "applications whose slots are inferred, as the log lacks the cores: 1" in lines
    assert next(summary.left_out()).startswith(f"Incomplete: {folder}: part 1 of at least 4 is")


def test_an_odd_entry_does_not_cost_the_logs_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note, an empty log, a link to nothing, one to itself, a pipe, a rolled log of no part, a
    folder that is shut; a checksum is not counted, nor the same log named twice.
    """
    log = Path(shutil.copy(file_of("spark-4.3-zstd"), tmp_path))
    rolled = next((LOGS / "spark-4.0-default").iterdir())
    shutil.copytree(rolled, tmp_path / rolled.name)
    (tmp_path / "README").write_text("our logs\n")
    (tmp_path / "local-1.inprogress").touch()
    (tmp_path / f".{log.name}.crc").write_bytes(b"crc")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "eventlog_v2_app").mkdir()
    (tmp_path / "shut").mkdir()
    as_usual = Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path.name == "shut":
            raise PermissionError(13, "Permission denied")
        return as_usual(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    trace, summary = read_spark_logs([tmp_path, log])
    assert (summary.applications, summary.files_skipped) == (2, 7)
    assert summary.faults == [
        f"{tmp_path}/README:1: not a Spark event log: the line is no Spark event",
        f"{tmp_path}/dangling: cannot read: No such file or directory",
        f"{tmp_path}/eventlog_v2_app: the rolled log holds no file events_N_...",
        f"{tmp_path}/local-1.inprogress: not a Spark event log: the file is empty",
        f"{tmp_path}/loop: cannot read: Too many levels of symbolic links",
        f"{tmp_path}/pipe: neither a file nor a folder",
        f"{tmp_path}/shut: cannot read: Permission denied",
    ]
    assert len(trace.jobs) == len(read_spark_logs([log, tmp_path / rolled.name])[0].jobs)
    assert len(read_recording([tmp_path]).driver) == len(trace.jobs)


def import_or_refuse(path: Path) -> None:
    """Import `path` and write the trace; a refusal must be one line of `TraceError`."""
    for by in GroupBy:
        trace = None
        with read_or_refused(TraceError):
            trace, summary = read_spark_logs([path], group_by=by)
        if trace is None:
            return
        target = path.with_suffix(".parquet")
        write_trace(trace, target)
        assert read_trace(target).jobs[0].name == trace.jobs[0].name
        assert all(line.isprintable() for line in summary.lines())


@pytest.mark.parametrize("name", ["spark-3.5-plain", *CODECS])
@settings(max_examples=30)
@given(data=st.data())
def test_damaged_bytes_never_give_a_traceback(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(file_of(name).read_bytes())
    places = st.integers(0, len(content) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=8)):
        content[place] = byte
    path = tmp_path_factory.mktemp("fuzz") / "log"
    path.write_bytes(content[: data.draw(st.one_of(st.just(len(content)), places))])
    import_or_refuse(path)


EVENTS = [json.loads(line) for line in plain("spark-4.3-failures").splitlines()]


@settings(max_examples=30)
@given(data=st.data())
def test_strange_values_never_give_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:

    events = EVENTS
    for _ in range(data.draw(st.integers(1, 4))):
        events = damaged(events, lambda count: data.draw(st.integers(0, count - 1)))
    path = tmp_path_factory.mktemp("fuzz") / "log"
    path.write_bytes(spark_events.text(events))
    import_or_refuse(path)


def test_the_command_writes_a_trace_and_tells_what_it_left_out(tmp_path: Path) -> None:
    """Failures log: one job, six attempts of a failed one; by Spark job, under 40 executors."""
    target = tmp_path / "trace.parquet"
    command = ("traces", "import", "spark")
    output = succeeded(decima(*command, file_of("spark-4.3-failures"), "-o", target)).stdout
    assert "jobs left out, failed: 1\n" in output
    assert output.endswith(f"wrote {target}\n")
    assert read_trace(target).name == "trace"
    options = ("--group-by", "job", "--executors", 40, "-o", tmp_path / "jobs.parquet")
    succeeded(decima(*command, LOGS / "spark-4.3-default", *options))
    trace = read_trace(tmp_path / "jobs.parquet")
    assert len(trace.jobs) == 10
    assert trace.jobs[0].stages[0].durations[0].executors == 40


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Bounds(content_bytes=100_000), "unfolds to more than 100,000 bytes"),
        (Bounds(values=3), "more than 3 tasks"),
        (Bounds(stages=1), "more than 2 "),
    ],
)
def test_a_log_is_read_up_to_its_bounds(
    limits: Bounds, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it broke off there: the jobs before stay, the end of reading is told."""
    monkeypatch.setattr(application, "_CHECK_EVERY", 1)
    path = file_of("spark-4.3-zstd")
    whole, _ = read_spark_logs([path])
    try:
        trace, summary = read_spark_logs([path], limits=limits)
    except TraceError as error:
        assert "no job" in str(error)  # noqa: PT017 -- the bound may come before the first job's end
        return
    assert len(trace.jobs) < len(whole.jobs)
    assert summary.lines_skipped == 1
    assert words in summary.faults[0]
    assert "the rest" in summary.faults[0]
