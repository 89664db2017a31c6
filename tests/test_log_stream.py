"""Event logs as pieces, as Java hands them to a task: the same jobs as from the file itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from decima.spark import cluster_logs as event_logs
from decima.spark.cluster_logs import RemoteLog, RemotePath, logs_in_order, read_partition
from traces.errors import TraceError
from traces.spark_log.files import find_logs
from traces.spark_log.reader import HowToRead, ReadLog, read_log, trace_of_logs

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
