"""Spark's own commands with the plugin, the programs that they run, and what is seen of them."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from decima.spark.jar import PLUGIN, find_javac, spark_jars
from tests.jvm import Classes
from traces.loopback import LOOPBACK

ROOT = Path(__file__).parents[1]
SLEEP = ("spark-submit", "--class", "SleepJobs")
"""runs that program, whose jar and jobs follow"""
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
QUERY = (
    "SELECT part, count(nap) FROM (SELECT id % 3 AS part, "
    "java_method('java.lang.Thread', 'sleep', 100L) AS nap FROM range(0, 24, 1, 24)) GROUP BY part"
)


def compiled(folder: Path, classes: Classes, name: str, java: int) -> Path:
    """A jar of a program of ours, for this Java and later ones."""
    source = Path(__file__).parent / "java_app" / f"{name}.java"
    javac, jar = find_javac(os.environ), folder / "program.jar"
    command = [javac, "--release", java, "-Xlint:-options", "-cp", classes.path, "-d", folder]
    subprocess.run(list(map(str, [*command, source])), check=True)  # noqa: S603 - the JDK's compiler
    pack = [str(javac.with_name("jar")), "cf", str(jar), "-C", str(folder), "."]
    subprocess.run(pack, check=True)  # noqa: S603 - the JDK's
    return jar


class Spark:
    """Spark's own commands with our jar."""

    def __init__(self, jar: Path, folder: Path, home: Path | None = None) -> None:
        """Args:
        jar: the plugin's.
        folder: of the test.
        home: of Spark; None: the newest.
        """
        self._jar, self.folder, self.home = jar, folder, home or spark_jars().parent
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "SPARK_HOME"},
            "SPARK_HOME": str(self.home), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT),
        }  # fmt: skip

    def command(self, name: str, *rest: object, **settings: object) -> list[str]:
        """One of ``bin``; settings are those of `spark.decima`, with _ for a point."""
        conf = {
            **LOOPBACK,
            "spark.plugins": PLUGIN,
            "spark.sql.shuffle.partitions": "3",
            "spark.ui.enabled": "false",
            "spark.metrics.namespace": "test",
            "spark.metrics.conf.driver.sink.csv.class": "org.apache.spark.metrics.sink.CsvSink",
            "spark.metrics.conf.driver.sink.csv.directory": str(self.folder),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        conf |= {
            f"spark.decima.{key.replace('_', '.')}": str(value) for key, value in settings.items()
        }
        flags = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
        program = self.home / "bin" / name
        return [*map(str, [program, "--master", "local[8]", "--jars", self._jar, *flags, *rest])]

    def run(self, name: str, *rest: object, said: str = "", **settings: object) -> tuple[str, str]:
        """Run a command to its end: standard output, and the rest."""
        done = subprocess.run(  # noqa: S603 - Spark's own
            self.command(name, *rest, **settings),
            input=said, cwd=self.folder, env=self.environment,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3_000:]
        return done.stdout, done.stderr

    def metric(self, name: str) -> float:
        """As Spark's own metrics told it last, when it stopped."""
        (path,) = self.folder.glob(f"*.driver.plugin.{PLUGIN}.{name}.csv")
        return float(path.read_text().splitlines()[-1].split(",")[1])


def most(output: str) -> dict[str, int]:
    """How many tasks ran at once, by job, user and group."""
    rows = [line.split() for line in output.splitlines() if line.startswith("most ")]
    return {" ".join(row[1:-1]): int(row[-1]) for row in rows}


def jobs(tasks: int) -> list[str]:
    """Four jobs of two users and two groups, for `SleepJobs`."""
    return [f"a,ann,g,{tasks}", f"b,ann,g,{tasks}", f"c,bob,g,{tasks}", f"d,bob,h,{tasks}"]


def assert_healthy(spark: Spark, launches: int) -> None:
    """It was attached, all tasks ran under its plans, and nothing was wrong."""
    assert spark.metric("launches_under_limit") >= launches
    assert spark.metric("plans") > 0
    wrong = ("refused", "faults", "fallbacks", "launches_over_limit", "launches_over_cap", "lapses")
    assert {name: spark.metric(name) for name in wrong} == dict.fromkeys(wrong, 0.0)


# --- processes and ports -------------------------------------------------------------------------


def children(process: int, words: str) -> list[int]:
    """The processes below `process` whose command has these words."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid,ppid,args"],  # noqa: S607 - the system's
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()[1:]]
    below = {str(process)}
    while more := {row[0] for row in rows if row[1] in below} - below:
        below |= more
    return [int(row[0]) for row in rows if row[0] in below and words in row[2]]


@contextmanager
def running(spark: Spark, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A server or program, and all that it starts; ended when the test is over."""
    with (spark.folder / "output").open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - Spark's own
            command, cwd=spark.folder, env=spark.environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=60)


def is_open(port: int) -> bool:
    with socket.socket() as end:
        return end.connect_ex(("127.0.0.1", port)) == 0


def at_once(spark: Spark, *commands: list[str]) -> list[str]:
    """Run clients at the same time; what each printed."""
    processes: list[Any] = [
        subprocess.Popen(  # noqa: S603 - our own
            command, cwd=spark.folder, env=spark.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for command in commands
    ]  # fmt: skip
    return [process.communicate(timeout=240)[0] for process in processes]
