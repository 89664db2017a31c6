"""Logs as clusters and history servers hand them out: archives, folders, parts, copies, pieces."""

from __future__ import annotations

import gzip
import io
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from decima.spark import cluster_logs as event_logs
from decima.spark.cluster_logs import RemoteLog, RemotePath, logs_in_order, read_partition
from decima.whatif.replay import read_recording
from tests.commands import raises_one_line
from tests.spark_events import (
    EPOCH,
    Event,
    closing,
    event,
    executor,
    one_task_job,
    properties,
    started,
    text,
    write,
)
from traces import TraceError, codecs
from traces.spark_log import read_spark_logs
from traces.spark_log.files import MAX_DEPTH, find_logs
from traces.spark_log.reader import HowToRead, ReadLog, read_log, trace_of_logs

OVER = closing()


def jobs(*numbers: int) -> list[Event]:
    """One-task jobs, one after another."""
    return [row for n in numbers for row in one_task_job(n, 100 * n, 100 * n + 90)]


def part(number: int, *events: Event) -> bytes:
    """A file as Databricks writes it."""
    head = {"Spark Version": "3.1.2", "Timestamp": EPOCH, "Rollover Number": number}
    return text([event("DBCEventLoggingListenerMetadata.", **head), *events]).replace(
        b"Metadata.", b"Metadata"
    )


def archive_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    path.write_bytes(archive_of(files))
    return path


WHOLE = [*started(), executor(), *jobs(0, 1, 2), OVER]
BEGUN = [*started(), executor(), *jobs(0, 1)]


@pytest.mark.parametrize(
    ("whole", "begun", "events"),
    [
        ("app", "app.inprogress", BEGUN),
        ("b.inprogress", "a-copy", BEGUN),
        # A copy in which no job ended takes nothing away.
        ("app", "app.inprogress", BEGUN[:5]),
    ],
)
def test_a_log_beside_its_own_in_progress_is_one_application(
    tmp_path: Path, whole: str, begun: str, events: list[Event]
) -> None:
    """The complete one counts, in whatever order they come, and the other is named."""
    for order in ((whole, begun), (begun, whole)):
        paths = [write(tmp_path / name, WHOLE if name == whole else events) for name in order]
        for given in ([tmp_path], paths):
            trace, summary = read_spark_logs(given)
            assert (summary.applications, summary.jobs, summary.copies) == (1, 3, 1)
            assert (summary.files_skipped, dict(summary.unused_jobs)) == (0, {})
            assert trace.metadata["applications"][0]["log"] == whole
            (words,) = (line for line in summary.left_out() if begun in line)
            assert whole in words
    assert read_recording([tmp_path]).slots == (2,)


def test_copies_of_a_log_and_other_runs_are_told_apart(tmp_path: Path) -> None:
    """Two copies are one application; another start, id or attempt is another."""
    write(tmp_path / "a", WHOLE)
    write(tmp_path / "b", WHOLE)
    assert read_spark_logs([tmp_path])[1].applications == 1
    write(tmp_path / "c", [*started(at=1), *WHOLE[2:]])
    write(tmp_path / "d", [*started(app_id="app-2"), *WHOLE[2:]])
    assert read_spark_logs([tmp_path])[1].applications == 3


def test_databricks_names_the_version_in_its_first_event(tmp_path: Path) -> None:
    """Pools of that version have its defaults."""
    fair = properties(spark_scheduler_mode="FAIR")
    (tmp_path / "eventlog").write_bytes(part(0, started()[1], fair, executor(), *jobs(0, 1), OVER))
    recording = read_recording([tmp_path / "eventlog"])
    assert recording.trace.metadata["applications"][0]["spark_version"] == "3.1.2"
    assert not recording.pools(0).named("default").fair


def databricks(folder: Path, names: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in names.items():
        (folder / name).write_bytes(content)
    return folder


FIRST, SECOND, NEWEST = (
    "eventlog-2026-11-27--17-00.gz", "eventlog-2026-11-27--18-00.zip.gz", "eventlog",
)  # fmt: skip


def headless(content: bytes) -> bytes:
    """Without the first event, which numbers the file."""
    return content.partition(b"\n")[2]


MIDDLE = part(1, *jobs(1), *jobs(2)[:2])
PARTS = {
    FIRST: gzip.compress(part(0, *started()[1:], executor(), *jobs(0))),
    SECOND: gzip.compress(MIDDLE),
    NEWEST: part(2, *jobs(2)[2:], OVER),
}
"""a log of three files, one of them with two suffixes; a job begins in one and ends in the next"""


@pytest.mark.parametrize(
    ("change", "missing", "skipped"),
    [
        ({}, None, 0),
        ({FIRST: None}, "part 1 of at least 3", 0),
        ({SECOND: None}, "part 2 of at least 3", 0),
        # The newest file was copied before and after it was put aside.
        ({"eventlog-2026-11-27--19-00.gz": gzip.compress(PARTS[NEWEST])}, None, 1),
        ({SECOND: None, "eventlog-2026-11-27--18-00.zip":
          archive_of({"eventlog-2026-11-27--18-00": MIDDLE})}, None, 0),
        ({FIRST: gzip.compress(text([*started(), executor(), *jobs(0)])),
          SECOND: gzip.compress(headless(MIDDLE)), NEWEST: headless(PARTS[NEWEST])}, None, 0),
    ],
    ids=["whole", "no first", "no second", "twice", "an archive", "no numbers"],
)  # fmt: skip
def test_parts_of_databricks_count_once_and_are_missed(
    tmp_path: Path, change: dict[str, bytes | None], missing: str | None, skipped: int
) -> None:
    """Whatever the suffix."""
    files = {name: part for name, part in {**PARTS, **change}.items() if part is not None}
    summary = read_recording([databricks(tmp_path / "4711", files)]).summary
    assert (summary.files_skipped, summary.parts_missing) == (skipped, int(missing is not None))
    assert missing is None or missing in summary.incomplete[0]
    if missing is None:
        assert (summary.jobs, summary.tasks) == (3, 3)
        assert not summary.unused_tasks


def test_a_delivery_is_found_from_every_level(tmp_path: Path) -> None:
    """CLUSTER/eventlog/CLUSTER_IP/CONTEXT, and no deeper than is said."""
    places = ("0314-abc", "eventlog", "0314-abc_10_0_0_5", "39873")
    databricks(tmp_path.joinpath(*places), PARTS)
    for depth in range(len(places) + 1):
        trace, _ = read_spark_logs([tmp_path.joinpath(*places[:depth])])
        assert len(trace.jobs) == 3
    deep = tmp_path / "deep"
    at = deep.joinpath(*(str(n) for n in range(MAX_DEPTH)))
    at.mkdir(parents=True)
    write(at / "app", WHOLE)
    assert len(find_logs([deep / "0"])) == 1
    with pytest.raises(TraceError, match=f"{MAX_DEPTH} levels"):
        find_logs([deep])


def test_links_that_lead_in_circles_end(tmp_path: Path) -> None:
    write(tmp_path / "app", WHOLE)
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    assert len(find_logs([tmp_path])) == 1


def test_an_archive_is_read_like_a_folder(tmp_path: Path) -> None:
    """A log, a compressed one, and a rolled one whose parts lie in no order."""
    other = [*started("etl", "app-2"), *WHOLE[2:]]
    rolled = [started("web", "app-3"), [executor(), *jobs(0)], [*jobs(1), OVER]]
    folder = "eventlog_v2_app-3"
    path = zipped(
        tmp_path / "logs.zip",
        {
            "app-1": text(WHOLE),
            "old/app-2.gz": gzip.compress(text(other)),
            f"{folder}/events_2_app-3": text(rolled[1]),
            f"{folder}/events_3_app-3": text(rolled[2]),
            f"{folder}/appstatus_app-3": b"",
            f"{folder}/events_1_app-3": text(rolled[0]),
            "__MACOSX/._app-1": b"\0",
        },
    )
    for place in (path, tmp_path):
        trace, summary = read_spark_logs([place])
        assert [facts["name"] for facts in trace.metadata["applications"]] == ["shop", "web", "etl"]
        assert (summary.jobs, summary.files_skipped) == (8, 0)


def test_damaged_archives_end_in_one_line(tmp_path: Path) -> None:
    """Cut short, empty, of an encrypted file, of an archive, of no log."""
    whole = archive_of({"app": text(WHOLE)})
    encrypted = whole.replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")
    assert encrypted != whole
    for name, content, words in (
        ("cut", whole[:-10], "zip"),
        ("none", b"PK\x05\x06" + bytes(18), "holds no event log"),
        ("encrypted", encrypted, "encrypted"),
        ("notes", archive_of({"notes": b"no log\n"}), "no Spark event"),
        ("nested", archive_of({"a.zip": whole}), "unpack it"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with raises_one_line(TraceError, match=words) as caught:
            read_spark_logs([path])
        assert str(path) in str(caught.value)


def test_an_archive_unfolds_to_so_much_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its files together, since they may lie on each other, and its list of files."""
    files = {f"app-{n}": text([*started(app_id=f"app-{n}"), *WHOLE[2:]]) for n in range(3)}
    path = zipped(tmp_path / "logs.zip", files)
    longest = max(map(len, files.values()))
    assert read_spark_logs([path])[1].applications == 3
    monkeypatch.setattr(codecs, "FREE_BYTES", longest)
    monkeypatch.setattr(codecs, "MAX_RATIO", 0)
    _, summary = read_spark_logs([path])
    assert summary.applications == 1
    assert any("unfold to more" in fault for fault in summary.faults)
    monkeypatch.setattr("traces.spark_log.files.MAX_LIST_BYTES", 100)
    with pytest.raises(TraceError, match="list of files is longer"):
        read_spark_logs([path])


# --- in pieces, as Java hands them to a task: the same jobs as from the file itself ---------------


LOGS = Path(__file__).parent / "data" / "spark_logs"
EVERY = sorted(LOGS.iterdir())
HOW = HowToRead()


def remote(path: Path, *, named: bool = True) -> RemoteLog:
    """A log as the driver lists it."""
    (log,) = find_logs([path])
    return RemoteLog(RemotePath(str(log.path)), tuple(map(str, log.files)), named, 0)


def pieces(log: RemoteLog, size: int = 1000) -> Iterator[bytes]:
    """What `EventLogs.java` makes of it."""
    yield b"L" + log.text().encode()
    for file in log.files:
        content = Path(file).read_bytes()
        yield from (b"D" + content[at : at + size] for at in range(0, len(content), size))
        yield b"E"


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_pieces_give_what_the_file_gives(path: Path) -> None:
    """Every codec, rolled or cut short; pieces end anywhere."""
    (local,) = find_logs([path])
    ((name, answer),) = read_partition(HOW, pieces(remote(path)))
    assert name == str(local.path)
    assert str(answer) == str(read_log(local, HOW))  # records of arrays do not compare


def test_what_nobody_reads_of_a_file_is_not_taken_for_the_next(tmp_path: Path) -> None:
    """The first file of a rolled log is damaged in its middle, and a second log follows."""
    (rolled,) = (LOGS / "spark-4.3-rolled").iterdir()
    folder = Path(shutil.copytree(rolled, tmp_path / "eventlog_v2_app"))
    first = min(folder.glob("events_*"))
    first.write_bytes(first.read_bytes()[:2000] + b"\0" * 90_000)
    second = EVERY[0]
    (local,) = find_logs([folder])
    both = [*pieces(remote(folder)), *pieces(remote(second))]
    answers = dict(read_partition(HOW, both))
    assert str(answers[str(folder)]) == str(read_log(local, HOW))
    (other,) = find_logs([second])
    assert str(answers[str(other.path)]) == str(read_log(other, HOW))


def test_a_file_that_cannot_be_read_on_is_counted_or_ends_the_import() -> None:
    """In a folder it is one of many; named by a person it is the matter itself."""
    log = remote(EVERY[0], named=False)
    head, first, *_ = pieces(log)
    broken = [head, first, b"XBlock missing"]
    ((_path, answer),) = read_partition(HOW, broken)
    assert isinstance(answer, ReadLog)
    assert (answer.jobs, answer.summary.files_skipped) == ((), 1)
    assert "Block missing" in answer.summary.faults[0]

    log = log._replace(named=True)
    answers = list(read_partition(HOW, [b"L" + log.text().encode(), *broken[1:]]))
    with pytest.raises(TraceError, match="Block missing"):
        list(logs_in_order([log], answers, HOW))


def test_logs_that_come_in_any_order_give_the_same_trace() -> None:
    """Tasks end as they like; names and arrivals go by the order of the logs."""
    logs = [remote(path) for path in EVERY]
    answers = [part for log in logs for part in read_partition(HOW, pieces(log))]
    paths = [log.path for log in logs]
    forth, back = (
        trace_of_logs(logs_in_order(logs, some, HOW), paths, group_by=HOW.group_by)[0]
        for some in (answers, answers[::-1])
    )
    assert [job.name for job in forth.jobs] == [job.name for job in back.jobs]
    assert forth.metadata == back.metadata


@pytest.mark.parametrize(
    ("reason", "ends"), [("AccessControlException: no", False), ("ConnectException: no", True)]
)
def test_a_folder_that_is_closed_to_us_is_no_fault_of_its_neighbours(
    reason: str, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that cannot be reached is one of all."""
    protocol = pytest.importorskip("py4j.protocol", reason="pyspark is not installed")
    monkeypatch.setattr(protocol.Py4JJavaError, "__init__", lambda *_: None)

    class Refusing:
        def list(self, uri: str) -> str:
            if uri == "hdfs://a/logs":
                return "d\x000\0hdfs://a/logs\0d\x000\0hdfs://a/logs/closed\0f\x007\0hdfs://a/log\0"
            raise protocol.Py4JJavaError

    monkeypatch.setattr(event_logs, "first_line", lambda _error: reason)
    if ends:
        with pytest.raises(TraceError, match="ConnectException"):
            event_logs.find_remote_logs(Refusing(), ["hdfs://a/logs"])
        return
    closed, log = event_logs.find_remote_logs(Refusing(), ["hdfs://a/logs"])
    assert (log.fault, log.num_bytes) == (None, 7)
    (answer,) = logs_in_order([closed], [], HOW)
    assert "hdfs://a/logs/closed: Spark cannot read it: AccessControl" in answer.summary.faults[0]


def test_fewer_samples_come_back_where_fewer_are_wanted() -> None:
    """Thinned in the task: at least one of each wave."""
    log = remote(LOGS / "spark-4.3-zstd")
    ((_, every),) = read_partition(HOW, pieces(log))
    ((_, few),) = read_partition(HOW._replace(samples=2), pieces(log))
    assert isinstance(every, ReadLog)
    assert isinstance(few, ReadLog)
    counts = [
        [sum(len(wave) for wave in stage.durations[0].waves) for stage in answer.jobs[0].job.stages]
        for answer in (every, few)
    ]
    assert max(counts[0]) > 3 >= max(counts[1])
