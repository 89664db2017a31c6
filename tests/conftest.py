"""Fixtures that several test files share."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, settings

from decima.cli.main import main
from spark_sim.compiled.progress import Announcer
from tests.commands import SMALL, Command
from tests.jvm import Classes, Talk
from tests.real_spark import missing_for_spark, skip_without
from tests.shapes import chain, fork_join
from tests.spark_commands import Spark, compiled
from tests.spark_work import Hooks, hooked_jar, local_spark, quiet_spark
from traces import Job, LevelDurations, Stage, Trace, write_trace

# Every run tries the same examples: a test that fails does so again, here and elsewhere.
# `pytest --hypothesis-profile=other` tries others. A slow machine is no failure.
COMMON = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.register_profile("same", COMMON, derandomize=True)
settings.register_profile("other", COMMON)
settings.load_profile("same")


@pytest.fixture(autouse=True)
def patient_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterations end, however busy the machine is: a time limit of no time then does one."""
    monkeypatch.setattr("decima.rl.stopping.GRACE_S", 600.0)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is marked `real_spark` needs pyspark and Java; its fixtures start after this."""
    if item.get_closest_marker("real_spark") is not None:
        skip_without(missing_for_spark(os.environ), os.environ)


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What commands say of compilation depends on the machine's history, not on the command."""
    monkeypatch.setattr(Announcer, "tell", lambda *_: None)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tensors of six numbers gain nothing from threads, and lose much on a busy machine."""
    from decima.rl import optimiser

    with optimiser.one_thread():
        yield


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    """A browser for the tests of a file; without one they are skipped."""
    from tests.browser import chromium, skip_without_browser

    skip_without_browser()
    with chromium() as browser:
        yield browser


SHARED = Path(__file__).parents[1].parent / "shared"


@pytest.fixture(scope="session")
def golden_file() -> Path:
    """Eleven runs of decima-sim on five jobs made by hand: all its policies, and a deadlock."""
    return Path(__file__).parent / "data" / "golden" / "stream.json"


@pytest.fixture(scope="session")
def golden_folder() -> Path:
    """All recorded runs of decima-sim, which do not come with the project."""
    folder = SHARED / "data" / "golden"
    if not folder.is_dir():
        pytest.skip(f"recorded runs of decima-sim are not at {folder}")
    return folder


@pytest.fixture(scope="session")
def trace_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of four small jobs, one of them with tasks of varied duration."""
    path = tmp_path_factory.mktemp("trace") / "small.parquet"
    samples = range(100, 4000, 100)
    level = LevelDurations.of(1, fresh_ms=samples, first_ms=samples, rest_ms=samples)
    varied = Job("varied", (Stage("only", 6, (), (level,)),))
    jobs = (chain("chain", (4, 1, 3)), fork_join("fork", (2, 5)), chain("one", (1,)), varied)
    write_trace(Trace("small", jobs), path)
    return path


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Classes:
    """The plugin's jar, compiled once for all processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (shared / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Classes(shared / "classes")


@pytest.fixture(scope="session")
def jvm(classes: Classes) -> Iterator[Talk]:
    """A JVM without Spark, which answers as `DriveSession.java` does."""
    with classes.talk() as talk:
        yield talk


@pytest.fixture(scope="session")
def jar_with_hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin's jar, whose planner can be made to fail."""
    return hooked_jar(tmp_path_factory.mktemp("hooked"))


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory, classes: Classes) -> Path:
    """The jar of `SleepJobs.java`."""
    return compiled(tmp_path_factory.mktemp("program"), classes, "SleepJobs", 8)


@pytest.fixture
def spark(tmp_path: Path, classes: Classes) -> Spark:
    """Commands of the newest Spark, in a folder of the test's own."""
    return Spark(classes.jar, tmp_path)


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """A local Spark with eight slots; a module may have another one."""
    with local_spark() as spark:
        yield spark


@pytest.fixture
def hooks(session: Any, jar_with_hooks: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hooks]:
    """Faults of the planner of the module's `session`."""
    hooks = Hooks(session, jar_with_hooks, monkeypatch)
    yield hooks
    hooks.clear()


@pytest.fixture
def run(trace_file: Path) -> Command:
    """`decima evaluate`, or another command, on that trace."""

    def invoke(*arguments: object, command: str = "evaluate") -> Result:
        texts = [str(argument) for argument in arguments]
        return CliRunner().invoke(main, [command, "--trace", str(trace_file), *SMALL, *texts])

    return invoke


@pytest.fixture(scope="module")
def session_in() -> Iterator[Callable[[str], Any]]:
    """A local Spark in a scheduling mode. There is one at a time: another mode ends it."""
    running: dict[str, Any] = {}

    def start(mode: str) -> Any:
        if mode not in running:
            while running:
                running.popitem()[1].stop()
            running[mode] = quiet_spark(spark_scheduler_mode=mode)
        return running[mode]

    yield start
    for spark in running.values():
        spark.stop()
