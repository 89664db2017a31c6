"""On executors of a real Spark: the greeting, the archive, and event logs read there.

Slow (minutes): `pytest -m slow tests/test_spark_executors.py`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

import pytest

from decima.fingerprint import versions
from decima.rl.parallel.errors import ClusterError
from decima.rl.parallel.greeting import check_executors
from decima.rl.parallel.pack import pack
from decima.rl.parallel.session import open_session
from decima.spark.cluster_logs import read_logs_on_cluster
from tests.commands import decima, refused
from tests.pool_work import EXECUTORS_KNOW_US
from traces import TraceError, load_trace, write_trace
from traces.spark_log import read_spark_logs
from traces.spark_log.reader import HowToRead

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "tests" / "data" / "spark_logs"
EVERY = [log for path in LOGS.iterdir() for log in path.iterdir()]


@pytest.fixture(autouse=True, scope="module")
def no_work_left() -> Iterator[None]:
    """Executors of a local cluster leave their folders, and what they unpacked, in Spark's."""
    import pyspark

    work = Path(pyspark.__file__).parent / "work"
    before = set(work.glob("app-*"))
    yield
    for folder in set(work.glob("app-*")) - before:
        shutil.rmtree(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All recorded logs, one that is cut short, one that is none, a rolled one without its files,
    and a marker.
    """
    copied = tmp_path / "event-logs"
    copied.mkdir()
    for source in EVERY:
        if source.is_dir():
            shutil.copytree(source, copied / source.name)
        else:
            shutil.copy(source, copied / source.name)
    whole = next((LOGS / "spark-4.3-zstd").iterdir()).read_bytes()
    (copied / "cut.zstd").write_bytes(whole[: len(whole) // 2])
    (copied / "notes.txt").write_text("no log\n")
    (copied / "_SUCCESS").write_text("")
    (copied / "eventlog_v2_empty").mkdir()
    return copied


def test_the_command_imports_on_a_cluster_what_it_imports_here(
    folder: Path, tmp_path: Path
) -> None:
    """The same trace, to the byte, and the same counts of what could not be read."""
    outputs = {place: tmp_path / place / "logs" for place in ("here", "there")}
    results = {}
    for place, output in outputs.items():
        output.parent.mkdir()
        command = ["traces", "import", "spark", str(folder), "--samples", "3", "-o", str(output)]
        cluster = ["--cluster", "local[2]"] if place == "there" else []
        results[place] = decima(*command, *cluster)
        assert results[place].exit_code == 0, results[place].output
    told = results["here"].stdout.replace(f"{tmp_path}/here", f"{tmp_path}/there")
    assert results["there"].stdout == told.replace(str(folder), f"file:{folder}")
    assert "files skipped: 3" in told
    assert results["there"].stderr == ""
    assert len(load_trace(outputs["there"]).jobs) > len(EVERY)
    for file in outputs["here"].iterdir():
        assert file.read_bytes() == (outputs["there"] / file.name).read_bytes(), file.name


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/nowhere/logs", "/nowhere/logs: no such file or folder"),
        ("foo://host/logs", "foo://host/logs: Spark cannot read it:"),
        (str(ROOT / "docs" / "examples"), "files cannot be read, the first: file:"),
        (str(ROOT / "mkdocs.yml"), "not a Spark event log"),
    ],
)
def test_what_cannot_be_imported_is_one_line(path: str, words: str, tmp_path: Path) -> None:
    command = ["traces", "import", "spark", path, "-o", str(tmp_path / "out")]
    result = decima(*command, "--cluster", "local[1]")
    refused(result, words)
    assert list(tmp_path.iterdir()) == []


def own_process() -> Mapping[str, str]:
    return {"process": str(os.getpid())}


def test_two_executors_answer_and_read(folder: Path, tmp_path: Path) -> None:
    """As processes of their own: they agree, a difference names the host, and logs are the same."""
    context = open_session("local-cluster[2,1,1024]", name="test", settings=EXECUTORS_KNOW_US)
    try:
        check_executors(context, versions)
        with pytest.raises(ClusterError, match=rf"{socket.gethostname()}: process is \d+ there"):
            check_executors(context, own_process)
        trace, summary = read_logs_on_cluster(context, [str(folder)], how=HowToRead(), name="t")
        with pytest.raises(TraceError, match="no such file or folder"):
            read_logs_on_cluster(context, [str(folder), f"{folder}/none"], how=HowToRead())
    finally:
        context.stop()
    expected, counts = read_spark_logs([folder], name="t")
    write_trace(trace, tmp_path / "there.parquet")
    write_trace(expected, tmp_path / "here.parquet")
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()
    assert summary.as_metadata() == counts.as_metadata()


WITH_ARCHIVES = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from decima.fingerprint import versions
from decima.rl.parallel.greeting import check_executors
from decima.rl.parallel.session import open_session

def place(_):
    import decima
    return decima.__file__

for archive in map(Path, sys.argv[1:]):
    context = open_session("local-cluster[2,1,1024]", name="test", archive=archive)
    try:
        check_executors(context, versions)
        print(context.parallelize([0], 1).map(place).first())
    except ValueError as error:
        print(error)
    context.stop()
"""


def test_executors_run_what_is_in_the_archive_and_say_when_it_is_not_ours(tmp_path: Path) -> None:
    """Without any other way to our code: the driver alone knows where it lies."""
    foreign, ours = tmp_path / "foreign.tar.gz", tmp_path / "decima.tar.gz"
    with tarfile.open(foreign, "w:gz") as archive:
        link = tarfile.TarInfo("bin/python")
        link.type, link.linkname = tarfile.SYMTYPE, os.path.realpath(sys.executable)
        archive.addfile(link)
        settings = f"home = {Path(os.path.realpath(sys.executable)).parent}\n".encode()
        entry = tarfile.TarInfo("pyvenv.cfg")
        entry.size = len(settings)
        archive.addfile(entry, BytesIO(settings))
    pack(ours)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", WITH_ARCHIVES.format(root=str(ROOT)), str(foreign), str(ours)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    refused, place = done.stdout.splitlines()
    assert refused.startswith("executors have no module decima: make an archive with `decima cl")
    assert "/environment/lib/" in place
    assert done.stderr == ""
