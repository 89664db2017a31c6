"""Applications of one standalone cluster under a coordinator: targets followed, processes killed.

Slow (minutes): `pytest -m slow tests/test_coordinator_spark.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jvm import Classes
from tests.spark_applications import (
    PATIENCE_S,
    Application,
    CoordinatorProcess,
    free_port,
    standalone,
    until,
)
from tests.spark_commands import EXECUTOR, children

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]
SLOTS = 4
LONG = 600, 0.2
"""tasks and seconds of a job that is worth a move to any executor, also where that is slow"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two workers of two cores."""
    with standalone(tmp_path_factory.mktemp("cluster"), workers=2, cores=2) as url:
        yield url


class Cluster:
    """A coordinator and applications that end with the test."""

    def __init__(self, folder: Path, master: str, jar: Path) -> None:
        self.folder, self._master, self._jar = folder, master, jar
        self.coordinator = CoordinatorProcess(folder, SLOTS, free_port())
        self.started: list[Application] = []

    def application(self, name: str, **conf: str) -> Application:
        made = Application(
            self.folder, self._master, self._jar, name, self.coordinator,
            **{"spark.cores.max": str(SLOTS), **conf},
        )  # fmt: skip
        self.started.append(made)
        return made

    def until_held(self, **counts: int) -> None:
        """Wait until the applications hold at least so many executors."""

        def is_so() -> bool:
            now = self.coordinator.applications()
            assert sum(limit for _, limit in now.values()) <= SLOTS
            return all(now.get(name, (0, 0))[0] >= count for name, count in counts.items())

        until(is_so, f"{counts}")

    def restart(self, *options: str) -> None:
        """Start the coordinator again at its port."""
        self.coordinator = CoordinatorProcess(self.folder, SLOTS, self.coordinator.port, *options)

    def logged(self) -> tuple[Path, dict[str, str]]:
        """A folder, and the settings of an application that writes its event log there."""
        events = self.folder / "events"
        events.mkdir()
        settings = {"enabled": "true", "dir": events.as_uri(), "compress": "false"}
        return events, {f"spark.eventLog.{name}": value for name, value in settings.items()}

    def close(self) -> None:
        for application in self.started:
            application.stop()
        self.coordinator.kill()


@pytest.fixture
def cluster(tmp_path: Path, master: str, classes: Classes) -> Iterator[Cluster]:
    made = Cluster(tmp_path, master, classes.jar)
    try:
        yield made
    finally:
        made.close()


def test_executors_follow_the_work(cluster: Cluster) -> None:
    one, two = cluster.application("one"), cluster.application("two")
    cluster.until_held(one=SLOTS)
    two.begin(*LONG)
    cluster.until_held(two=SLOTS)
    assert cluster.coordinator.metric("decima_coordinator_moving_delay_samples") >= SLOTS
    assert cluster.coordinator.metric("decima_coordinator_moving_delay_seconds") > 0.2
    one.begin(12, 0.5)
    cluster.until_held(one=1)
    assert (one.end(), two.end()) == (12, LONG[0])
    one.begin(*LONG)
    cluster.until_held(one=SLOTS)
    assert one.end() == LONG[0]


def test_a_driver_that_is_paused_or_killed_and_a_killed_executor(cluster: Cluster) -> None:
    """A paused driver is missed and comes back. The share of a killed one goes to the other; the
    executor's tasks run again.
    """
    one, two = cluster.application("one"), cluster.application("two")

    def until_known(*names: str, patience_s: float = PATIENCE_S) -> None:
        known = cluster.coordinator.applications
        until(lambda: set(known()) == set(names), f"{names}", patience_s)

    cluster.until_held(one=SLOTS)
    os.killpg(one.process.pid, signal.SIGSTOP)
    until_known("two")
    os.killpg(one.process.pid, signal.SIGCONT)
    until_known("one", "two")
    two.begin(*LONG)
    cluster.until_held(two=SLOTS)
    one.begin(*LONG)
    cluster.until_held(one=1)
    two.kill()
    until_known("one", patience_s=15)
    cluster.until_held(one=SLOTS)
    os.kill(children(os.getpid(), EXECUTOR)[0], signal.SIGKILL)
    assert one.end() == LONG[0]
    cluster.until_held(one=SLOTS)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_coordinator_that_dies_or_hangs(cluster: Cluster, how: signal.Signals) -> None:
    """Each application keeps what it holds, then has its own maximum, then follows again."""
    one, two = cluster.application("one"), cluster.application("two")
    two.begin(*LONG)
    cluster.until_held(two=SLOTS)
    cluster.coordinator.process.send_signal(how)
    assert two.end() == LONG[0]
    until(lambda: "Spark's own maximum holds until" in two.log.read_text(), "the bound")
    two.begin(12, 0.2)
    assert two.end() == 12
    if how == signal.SIGKILL:
        cluster.coordinator.process.wait()
        cluster.restart()
    else:
        cluster.coordinator.process.send_signal(signal.SIGCONT)
    until(lambda: set(cluster.coordinator.applications()) == {"one", "two"}, "them to be back")
    one.begin(*LONG)
    cluster.until_held(one=SLOTS)
    assert one.end() == LONG[0]


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ({"spark.dynamicAllocation.enabled": "true"}, "both would decide on executors"),
        ({"spark.decima.coordinatorSecretFile": "/nowhere"}, "/nowhere"),
        ({"spark.decima.coordinator": "127.0.0.1:1"}, "keeps its executors"),
    ],
)
def test_what_cannot_be_is_one_warning(cluster: Cluster, conf: dict[str, str], reason: str) -> None:
    one = cluster.application("one", **conf)
    one.begin(8, 0.1)
    assert one.end() == 8
    until(lambda: reason in one.log.read_text(), "the warning", 30)
    warnings = [line for line in one.log.read_text().splitlines() if reason in line]
    assert len([line for line in warnings if "decima: nothing: " not in line]) == 1
    assert cluster.coordinator.applications() == {}


def test_an_adaptive_query_keeps_its_executors_between_its_jobs(cluster: Cluster) -> None:
    """Its shuffle ends a Spark job; no other application gets its last executor before the next."""
    cluster.coordinator.kill()
    cluster.restart("--idle", "60")
    events, logged = cluster.logged()
    logged["spark.sql.adaptive.enabled"] = "true"
    one, two = cluster.application("one", **logged), cluster.application("two")
    cluster.until_held(one=SLOTS)
    one.begin(40, 0.5, 40)
    two.begin(*LONG)
    assert one.end() == sum(range(40))
    one.stop()
    path = next(path for path in events.rglob("events_*"))
    told = [json.loads(line)["Event"] for line in path.read_text().splitlines()]
    ends = [place for place, event in enumerate(told) if event == "SparkListenerJobEnd"]
    assert len(ends) > 1
    change = {"SparkListenerExecutorAdded": 1, "SparkListenerExecutorRemoved": -1}
    held = list(itertools.accumulate(change.get(event, 0) for event in told))
    assert min(held[ends[0] : ends[-1]]) >= 1
    assert two.end() == LONG[0]


def test_executors_are_decommissioned_where_spark_is_set_to(cluster: Cluster) -> None:
    """Spark moves what they hold, ends them, and both applications get right results."""
    events, logged = cluster.logged()
    logged |= {"spark.decommission.enabled": "true", "spark.storage.decommission.enabled": "true"}
    one, two = (cluster.application(name, **logged) for name in ("one", "two"))
    cluster.until_held(one=SLOTS)
    one.begin(120, 0.5, 60)
    two.begin(*LONG)
    cluster.until_held(two=SLOTS // 2)
    assert one.end() == sum(range(120))
    assert two.end() == LONG[0]
    for application in (one, two):
        application.stop()
    told = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    assert told.count("Executor decommission: another application gets it") >= SLOTS // 2
