"""The plugin in real applications, started as a person would: docs/plugin.md shows these commands.

Slow (ten minutes): `pytest -m slow tests/test_spark_plugin.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from decima.policy_names import model_path
from decima.spark.decision_log import read_decision_log
from decima.spark.jar import PLUGIN, find_javac, spark_jars
from tests.jvm import Classes
from tests.spark_applications import free_port
from tests.test_spark_versions import SPARKS, each_newer_java
from traces.loopback import LOOPBACK

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

ROOT = Path(__file__).parents[1]
NEWEST = spark_jars().parent
QUERY = (
    "SELECT part, count(nap) FROM (SELECT id % 3 AS part, "
    "java_method('java.lang.Thread', 'sleep', 100L) AS nap FROM range(0, 24, 1, 24)) GROUP BY part"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, classes: Classes) -> Path:
    """`SleepJobs`, compiled."""
    return compiled(tmp_path_factory.mktemp("program"), classes, "SleepJobs", 8)


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

    def __init__(self, home: Path, jar: Path, folder: Path) -> None:
        self.home, self._jar, self.folder = home, jar, folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "SPARK_HOME"},
            "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT),
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
        words = [
            self.home / "bin" / name,
            "--master",
            "local[8]",
            "--jars",
            self._jar,
            *flags,
            *rest,
        ]
        return list(map(str, words))

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


@pytest.fixture
def spark(tmp_path: Path, classes: Classes) -> Spark:
    return Spark(NEWEST, classes.jar, tmp_path)


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


# --- programs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "home",
    [NEWEST, *(home / "pyspark" for home in SPARKS)],
    ids=["newest", *(home.name for home in SPARKS)],
)
def test_a_program_without_python_is_scheduled_and_capped(
    home: Path, tmp_path: Path, classes: Classes, program: Path
) -> None:
    """The same jar on Scala 2.12 and 2.13: three slots a job, four for all jobs of a user."""
    spark = Spark(home, classes.jar, tmp_path)
    output, _ = spark.run(
        "spark-submit", "--class", "SleepJobs", program, *jobs(30),
        policy="tuned_srw", maxSlotsPerJob=3, maxSlots_user_ann=4,
    )  # fmt: skip
    most_slots = most(output)
    assert output.count("done ") == 4
    assert max(most_slots[f"job {name}"] for name in "abcd") == 3
    assert most_slots["user ann"] <= 4 < most_slots["all"] <= 8
    assert_healthy(spark, 120)
    assert spark.metric("startup_ms") < 5_000


@each_newer_java
def test_a_program_on_a_newer_java(java: Path, spark: Spark, program: Path) -> None:
    spark.environment["JAVA_HOME"] = str(java)
    output, told = spark.run(
        "spark-submit", "--class", "SleepJobs", program, *jobs(30), policy="es_rule"
    )
    assert output.count("done ") == 4
    assert_healthy(spark, 120)
    assert "final field" not in told


def test_spark_keeps_its_order_under_caps(spark: Spark, program: Path) -> None:
    """Pools of FAIR that mean something: no plan is made, five slots for one pool."""
    output, _ = spark.run(
        "spark-submit", "--conf", "spark.scheduler.mode=FAIR", "--class", "SleepJobs", program,
        *jobs(20), policy="spark", maxSlots_pool_g=5,
    )  # fmt: skip
    most_slots = most(output)
    assert (most_slots["group g"], most_slots["all"]) == (5, 8)
    assert (spark.metric("plans"), spark.metric("launches_over_cap")) == (0, 0)


@pytest.mark.parametrize("policy", ["spark", "strict_fair"])
def test_no_more_jobs_run_at_once_than_allowed(spark: Spark, program: Path, policy: str) -> None:
    """Two of four jobs, whoever orders them; tasks of both fill the slots."""
    output, told = spark.run(
        "spark-submit", "--class", "SleepJobs", program, *jobs(20), policy=policy, maxJobs=2
    )
    most_jobs = most(output)
    assert output.count("done ") == 4
    assert (most_jobs["jobs"], most_jobs["all"]) == (2, 8)
    assert spark.metric("faults") == spark.metric("refused") == 0
    reasons = {"spark": "caps only: maxJobs 2, policy spark leaves order to Spark"}
    decides = f"policy decides: policy {policy}, mode exact, maxJobs 2"
    assert f"decima: {reasons.get(policy, decides)}" in told


def test_pipelined_stages_are_admitted_beside_limits(
    spark: Spark, tmp_path: Path, classes: Classes
) -> None:
    """Spark 4.3 takes a job whose stages run together if all their tasks find a slot: four and two
    beside a job that holds two of eight. A cap of three, which they cannot live with, does not
    hold for them."""
    jar = compiled(tmp_path, classes, "PipelinedJobs", 17)
    output, _ = spark.run(
        "spark-submit", "--class", "PipelinedJobs", jar, 4, 2, 2,
        policy="tuned_srw", maxSlotsPerJob=3,
    )  # fmt: skip
    assert ("done 4" in output, most(output)) == (True, {"": 6})
    assert spark.metric("faults") == spark.metric("launches_over_cap") == 0


def test_a_learned_policy_decides_without_python(
    spark: Spark, program: Path, tmp_path: Path
) -> None:
    """The jar's model, or one in a file, under caps; no process is started."""
    port = free_port()
    model = tmp_path / "own.safetensors"
    shutil.copy(model_path("decima"), model)
    for policy in ("decima", model):
        command = spark.command(
            "spark-submit", "--class", "SleepJobs", program, *jobs(60),
            policy=policy, maxSlotsPerJob=5, metricsPort=port,
        )  # fmt: skip
        with running(spark, command) as process:
            until(lambda: "decima_job_limit{" in metrics(port), 120)
            told = metrics(port)
            assert children(process.pid, "plugin_worker") == []
            assert process.wait(timeout=300) == 0
        output = (spark.folder / "output").read_text()
        assert output.count("done ") == 4
        assert max(most(output)[f"job {name}"] for name in "abcd") <= 5
        assert {line for line in told.splitlines() if "worker " in line or "fallbacks" in line} >= {
            "decima_worker 0", "decima_fallbacks_total 0",
        }  # fmt: skip
        assert "decima does not schedule" not in output
        assert_healthy(spark, 240)
        dashboard = (ROOT / "docs" / "examples" / "grafana.json").read_text(encoding="utf-8")
        shown = set(re.findall(r"decima_\w+(?={)", dashboard))
        assert len(shown) > 10
        assert shown <= set(re.findall(r"^decima_\w+", told, re.MULTILINE))


@pytest.mark.parametrize("policy", ["decima", "sjf_cp"], ids=["in the JVM", "in a process"])
def test_a_decision_log_is_written_and_caps_hold(spark: Spark, program: Path, policy: str) -> None:
    """No job is missing, though the program ends with the last of them; only its owner may read it.
    A policy in Python does not observe caps.
    """
    log = spark.folder / "log.jsonl"
    output, _ = spark.run(
        "spark-submit", "--class", "SleepJobs", program, *jobs(1_000),
        policy=policy, python=sys.executable, decisionLog=log, maxSlotsPerJob=5,
    )  # fmt: skip
    assert output.count("done ") == 4
    assert max(most(output)[f"job {name}"] for name in "abcd") == 5
    assert_healthy(spark, 4_000)
    history = read_decision_log(log)
    assert policy in {plan.by for plan in history.plans}
    ended = [job.key for job in history.jobs if job.completion_ms is not None]
    assert sorted(ended) == [f"job {name}" for name in "abcd"]
    assert len(history.jobs) == 4
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_worker_that_is_killed_is_stood_in_for(spark: Spark, program: Path) -> None:
    """With -9, as soon as it decides: jobs go on under strict fair and their caps, and another one
    is started. Metrics and log say so, each with the reason.
    """
    port = free_port()
    # A job ends every second or two: then a plan is due, and who decides it is told.
    many = [f"{number},ann,g,60" for number in range(45)]
    command = spark.command(
        "spark-submit", "--class", "SleepJobs", program, *many,
        policy="sjf_cp", python=sys.executable, metricsPort=port, maxSlots_user_ann=6,
    )  # fmt: skip
    away = 'state="stand-in",reason="strict_fair decides: the worker process ended'
    with running(spark, command) as process:
        until(lambda: "decima_worker 1" in metrics(port), 120)
        until(lambda: "decima_state 3" in metrics(port), 30)
        (worker,) = children(process.pid, "decima.spark.plugin_worker")
        os.kill(worker, 9)
        until(lambda: away in metrics(port), 30)
        until(lambda: "decima_fallbacks_total 0" not in metrics(port), 30)
        until(lambda: "decima_state 3" in metrics(port), 120)
        assert process.wait(timeout=300) == 0
    output = (spark.folder / "output").read_text()
    assert (output.count("done "), most(output)["user ann"]) == (45, 6)
    assert output.count("strict_fair decides until it is back") == 1
    ready, gone = "decima: policy decides: policy sjf_cp", "decima: stand-in: strict_fair decides: "
    assert output.index(f"{gone}Python is starting") < output.index(f"{gone}the worker process end")
    assert output.index(f"{gone}the worker process ended") < output.rindex(ready)
    assert spark.metric("launches_over_cap") == spark.metric("faults") == 0


def test_a_worker_that_hangs_is_ended_and_started_again(spark: Spark, program: Path) -> None:
    """Stopped by a signal: strict fair decides, and after `lapse` another process."""
    port = free_port()
    # A job ends every second or two: then a plan is due, and the worker is asked.
    many = [f"{number},ann,g,100" for number in range(200)]
    command = spark.command(
        "spark-submit", "--class", "SleepJobs", program, *many,
        policy="sjf_cp", python=sys.executable, metricsPort=port, lapse="1s",
    )  # fmt: skip
    with running(spark, command) as process:
        until(lambda: "decima_worker 1" in metrics(port), 120)
        (worker,) = children(process.pid, "decima.spark.plugin_worker")
        os.kill(worker, signal.SIGSTOP)
        until(lambda: "decima_worker 0" in metrics(port), 60)
        until(lambda: "decima_worker 1" in metrics(port), 120)
        assert children(process.pid, "decima.spark.plugin_worker") != [worker]
    output = (spark.folder / "output").read_text()
    assert "has not answered for 1.0 s" in output


def test_auto_chooses_in_a_worker(spark: Spark, program: Path) -> None:
    """Spark's order until the simulator has played the priors; then the best policy plans."""
    port = free_port()
    command = spark.command(
        "spark-submit", "--class", "SleepJobs", program, *jobs(12_000),
        policy="auto", python=sys.executable, priors="tpch", metricsPort=port,
    )  # fmt: skip
    with running(spark, command):
        until(lambda: "decima_attached 1" in metrics(port), 120)
        assert "decima_plans_total 0" in metrics(port)
        until(lambda: "decima_worker 1" in metrics(port), 500)
        until(lambda: "decima_plans_total 0" not in metrics(port), 300)
    output = (spark.folder / "output").read_text()
    assert "instead of fifo: average JCT -" in output


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"polcy": "fifo", "required": "false"}, "spark.decima.polcy: no such setting"),
        ({"policy": "decima:sampled"}, "'decima:sampled' needs spark.decima.python"),
        ({"policy": "absent.safetensors"}, "absent.safetensors: no such file"),
        ({"policy": "auto"}, "'auto' needs spark.decima.python"),
        ({"maxSlotsPerJob": "0", "required": "false"}, "slots are whole numbers from 1 on"),
        ({"policy": "sjf_cp", "python": "/nowhere/python"}, "/nowhere/python"),
        ({"policy": "es_rule", "parameters": "rule.json"}, "its features are not those"),
        ({"policy": "absent.safetensors", "python": sys.executable}, "absent.safetensors"),
    ],
    ids=lambda setting: "-".join(setting) if isinstance(setting, dict) else "",
)
def test_what_cannot_be_used_is_told_once_and_spark_goes_on(
    spark: Spark, program: Path, settings: dict[str, str], reason: str
) -> None:
    """One warning, a metric, and the jobs run as without us."""
    rule = spark.folder / "rule.json"
    rule.write_text('{"policy": "es_rule", "parameters": {"size_0": 1.0}}')
    # A worker takes a while to find out; jobs run meanwhile.
    tasks = 700 if "python" in settings else 8
    output, told = spark.run(
        "spark-submit", "--class", "SleepJobs", program, *jobs(tasks), **settings
    )
    assert output.count("done ") == 4
    warnings = [line for line in told.splitlines() if "decima does not schedule" in line]
    assert len(warnings) == 1
    assert reason in warnings[0]
    assert (spark.metric("refused"), spark.metric("attached")) == (1, 0)


# --- processes and ports -------------------------------------------------------------------------


def metrics(port: int) -> str:
    """What Prometheus would read; nothing before it is served."""
    try:
        return str(urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode())
    except OSError:
        return ""


def until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.2)


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
