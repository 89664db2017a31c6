"""Before the work: no cluster, or executors that answer otherwise, told in one line."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from decima.rl.parallel.errors import ClusterError
from decima.rl.parallel.greeting import check_executors
from decima.rl.parallel.session import open_session
from tests.commands import decima, raises_one_line, refused

LOG = Path(__file__).parent / "data" / "spark_logs" / "spark-3.5-plain"


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port at which nobody listens: it is taken, but not open."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    ("master", "words"),
    [
        ("local[two]", "'local[two]' is no master URL of Spark"),
        ("http://host:7077", "is no master URL"),
        ("spark://host", "is no master URL"),
        ("local-cluster[2,1]", "is no master URL"),
        ("yarn-cluster", "is no master URL"),
        ("", "'' is no master URL"),
        ("spark://host:99999", "99999 is no port"),
        ("spark://127.0.0.1:PORT", "no master answers: 127.0.0.1:PORT ("),
        ("spark://127.0.0.1:PORT,127.0.0.1:PORT", "127.0.0.1:PORT (Connection refused), 127"),
        ("k8s://https://127.0.0.1:PORT", "no master answers: 127.0.0.1:PORT ("),
        ("yarn", "HADOOP_CONF_DIR"),
    ],
)
def test_a_cluster_that_cannot_be_had_is_one_line_and_nothing_is_written(
    master: str, words: str, unused_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any Java starts: Spark itself would try for a minute, and say it at length."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    master, words = (text.replace("PORT", str(unused_port)) for text in (master, words))
    arguments = ["traces", "import", "spark", str(LOG), "--cluster", master]
    result = decima(*arguments, "-o", tmp_path / "logs")
    refused(result, words)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_must_be_there_and_have_executors_to_go_to(tmp_path: Path) -> None:
    archive = tmp_path / "decima.tar.gz"
    with pytest.raises(ClusterError, match="no such file; `decima cluster pack` makes"):
        open_session("local-cluster[1,1,1024]", name="t", archive=archive)
    archive.write_bytes(b"")
    with pytest.raises(ClusterError, match="has no executors"):
        open_session("local[2]", name="t", archive=archive)


def test_a_machine_without_java_or_with_another_spark_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = SimpleNamespace(__version__="3.4.1")
    monkeypatch.setitem(sys.modules, "pyspark", other)
    with pytest.raises(ClusterError, match=r"pyspark 3\.4\.1: supported are 3\.5 to 4\.x"):
        open_session("local[1]", name="t")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ClusterError, match="pyspark is not installed"):
        open_session("local[1]", name="t")
    none = SimpleNamespace(_active_spark_context=None)
    monkeypatch.setitem(
        sys.modules, "pyspark", SimpleNamespace(__version__="4.0.0", SparkContext=none)
    )
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ClusterError, match="no java below JAVA_HOME=/nowhere"):
        open_session("local[1]", name="t")


# --- the greeting -----------------------------------------------------------------------------


Work = Callable[[Iterable[int]], Iterator[Any]]


class Executors:
    """A SparkContext whose tasks run here, on executors in turn."""

    defaultParallelism = 2  # noqa: N815 - Spark's name

    def __init__(self, pids: tuple[int, ...] = (1,), fault: Exception | None = None) -> None:
        self.pids = pids
        self.fault = fault
        self.rounds = 0
        self.cancelled: list[str] = []
        status = SimpleNamespace(size=lambda: len(pids) + 1)
        self._jsc = SimpleNamespace(
            sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: status)
        )

    def parallelize(self, _tasks: Iterable[int], _slots: int) -> Executors:
        return self

    def mapPartitions(self, work: Work) -> Executors:  # noqa: N802 - Spark's name
        self.work = work
        return self

    def collect(self) -> list[Any]:
        """One task, on the next executor."""
        if self.fault is not None:
            raise self.fault
        pid = self.pids[self.rounds % len(self.pids)]
        self.rounds += 1
        answers: list[Any] = [answer._replace(executor=pid) for answer in self.work(iter([0]))]
        return answers

    def setJobGroup(self, *_words: Any, **_more: Any) -> None:  # noqa: N802 - Spark's name
        pass

    setLocalProperty = setJobGroup  # noqa: N815 - Spark's name


def same() -> Mapping[str, str]:
    return {"version": "1.0", "numbers": "abc"}


class Changing:
    """Answers as told, the first time for the driver."""

    def __init__(self, *answers: Mapping[str, str]) -> None:
        self.answers = list(answers)

    def __call__(self) -> Mapping[str, str]:
        return self.answers.pop(0)


def test_every_executor_that_is_known_is_asked() -> None:
    """One task reaches one executor, so there is a round for the other."""
    context = Executors(pids=(1, 2))
    check_executors(context, same)
    assert context.rounds == 2


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({"version": "0.9", "numbers": "abc"}, "version is 0.9 there and 1.0 here"),
        ({"version": "1.0", "numbers": "abd"}, "numbers is abd there and abc here"),
        ({"version": "1.0"}, "numbers is None there and abc here"),
    ],
)
def test_an_executor_that_differs_is_named_with_both_values(
    there: Mapping[str, str], words: str
) -> None:
    """The host, the key, what it is there and what it is here."""
    with raises_one_line(ClusterError) as error:
        check_executors(Executors(), Changing(same(), there))
    assert str(error.value).startswith(f"{socket.gethostname()}: {words}")


STACK = "Job aborted due to stage failure\n\tat org.apache.spark.Executor\nTraceback:\n  File\n"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (f"{STACK}ModuleNotFoundError: No module named 'parallel'\n\tat", "no module parallel"),
        ('java.io.IOException: Cannot run program "./environment/bin/python": x', "cannot start"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: (3, 10) than that "
            "in driver: 3.11, PySpark cannot run",
            "another Python (3.10, here 3.11)",
        ),
        ("Job 1 cancelled part of cancelled job group g", "no executor has come within 300 s"),
        (f"{STACK}ValueError: bad kernel\n\n\tat", "cannot answer: ValueError: bad kernel"),
    ],
)  # fmt: skip
def test_executors_that_cannot_answer_are_told_in_one_line(fault: str, words: str) -> None:
    """A Java stack with a Python one inside, down to what is to be done."""
    with raises_one_line(ClusterError) as error:
        check_executors(Executors(fault=RuntimeError(fault)), same)
    assert words in str(error.value)
