"""The plugin in real applications, started as a person would: docs/plugin.md shows these commands.

Slow (ten minutes): `pytest -m slow tests/test_spark_plugin.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from decima.policy_names import model_path
from decima.spark.decision_log import read_decision_log
from tests.jvm import Classes
from tests.spark_applications import free_port, metrics
from tests.spark_commands import (
    QUERY,
    ROOT,
    SLEEP,
    Spark,
    assert_healthy,
    children,
    compiled,
    jobs,
    most,
    running,
)
from tests.spark_work import until
from tests.test_spark_versions import SPARKS, each_newer_java

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]


# --- programs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "home",
    [None, *(home / "pyspark" for home in SPARKS)],
    ids=["newest", *(home.name for home in SPARKS)],
)
def test_a_program_without_python_is_scheduled_and_capped(
    home: Path | None, tmp_path: Path, classes: Classes, program: Path
) -> None:
    """The same jar on Scala 2.12 and 2.13: three slots a job, four for all jobs of a user."""
    spark = Spark(classes.jar, tmp_path, home)
    output, _ = spark.run(
        *SLEEP, program, *jobs(30), policy="tuned_srw", maxSlotsPerJob=3, maxSlots_user_ann=4
    )
    most_slots = most(output)
    assert output.count("done ") == 4
    assert max(most_slots[f"job {name}"] for name in "abcd") == 3
    assert most_slots["user ann"] <= 4 < most_slots["all"] <= 8
    assert_healthy(spark, 120)
    assert spark.metric("startup_ms") < 5_000


@each_newer_java
def test_a_program_on_a_newer_java(java: Path, spark: Spark, program: Path) -> None:
    spark.environment["JAVA_HOME"] = str(java)
    output, told = spark.run(*SLEEP, program, *jobs(30), policy="es_rule")
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


def test_no_more_jobs_run_at_once_than_allowed(spark: Spark, program: Path) -> None:
    """Two of four jobs in Spark's own order; tasks of both fill the slots."""
    output, told = spark.run(*SLEEP, program, *jobs(20), policy="spark", maxJobs=2)
    most_jobs = most(output)
    assert output.count("done ") == 4
    assert (most_jobs["jobs"], most_jobs["all"]) == (2, 8)
    assert spark.metric("faults") == spark.metric("refused") == 0
    assert "decima: caps only: maxJobs 2, policy spark leaves order to Spark" in told


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


@pytest.mark.parametrize(
    ("policy", "tasks"), [("decima", 60), ("own.safetensors", 60), ("sjf_cp", 1_000)]
)
def test_a_policy_decides_in_the_jvm_or_in_a_process(
    spark: Spark, program: Path, policy: str, tasks: int
) -> None:
    """Under caps, which a policy in Python does not observe. No job is missing in the decision log,
    though the program ends with the last of them; only its owner may read it. No process is started
    for the jar's model, or one in a file.
    """
    port, log, is_outside = free_port(), spark.folder / "log.jsonl", policy == "sjf_cp"
    shutil.copy(model_path("decima"), spark.folder / "own.safetensors")
    command = spark.command(
        *SLEEP, program, *jobs(tasks),
        policy=policy, maxSlotsPerJob=5, metricsPort=port, decisionLog=log,
        **({"python": sys.executable} if is_outside else {}),
    )  # fmt: skip
    with running(spark, command) as process:
        assert until(lambda: "decima_job_limit{" in metrics(port), 120)
        told = metrics(port)
        assert (children(process.pid, "plugin_worker") != []) == is_outside
        assert process.wait(timeout=300) == 0
    output = (spark.folder / "output").read_text()
    assert output.count("done ") == 4
    assert max(most(output)[f"job {name}"] for name in "abcd") <= 5
    assert "decima does not schedule" not in output
    assert_healthy(spark, 4 * tasks)
    history = read_decision_log(log)
    assert policy in {plan.by for plan in history.plans}
    ended = [job.key for job in history.jobs if job.completion_ms is not None]
    assert sorted(ended) == [f"job {name}" for name in "abcd"]
    assert len(history.jobs) == 4
    assert log.stat().st_mode & 0o777 == 0o600
    dashboard = (ROOT / "docs" / "examples" / "grafana.json").read_text(encoding="utf-8")
    shown = set(re.findall(r"decima_\w+(?={)", dashboard))
    assert len(shown) > 10
    assert shown <= set(re.findall(r"^decima_\w+", told, re.MULTILINE))


def test_a_worker_that_is_killed_or_hangs_is_replaced(spark: Spark, program: Path) -> None:
    """With -9, then stopped by a signal, as soon as it decides: jobs go on under strict fair and
    their caps, and another one is started. Metrics and log say so, each with the reason.
    """
    port = free_port()
    # A job ends every second or two: then a plan is due, and who decides it is told.
    many = [f"{number},ann,g,60" for number in range(300)]
    command = spark.command(
        *SLEEP, program, *many,
        policy="sjf_cp", python=sys.executable, metricsPort=port, maxSlots_user_ann=6, lapse="1s",
    )  # fmt: skip

    def shows(words: str) -> bool:
        return words in metrics(port)

    def output() -> str:
        return (spark.folder / "output").read_text()

    ready, gone = "decima: policy decides: policy sjf_cp", "decima: stand-in: strict_fair decides: "
    ended = f"{gone}the worker process ended"

    def is_logged_ready() -> bool:
        _, _, since = output().partition(ended)
        return ready in since

    with running(spark, command) as process:
        workers = []
        away = 'state="stand-in",reason="strict_fair decides: the worker process ended'
        for number, sign in ((signal.SIGKILL, away), (signal.SIGSTOP, "decima_worker 0")):
            assert until(lambda: shows("decima_worker 1"), 120)
            assert until(lambda: shows("decima_state 3"), 120)
            workers += children(process.pid, "decima.spark.plugin_worker")
            os.kill(workers[-1], number)
            assert until(partial(shows, sign), 60)
        assert until(lambda: "decima_fallbacks_total 0" not in metrics(port), 30)
        assert until(lambda: shows("decima_worker 1"), 120)
        (last,) = children(process.pid, "decima.spark.plugin_worker")
        assert len({*workers, last}) == 3
        # The log looks at the state once a second: a short spell of the policy is not in it.
        assert until(is_logged_ready, 60)
        told = metrics(port)
    assert "decima_launches_over_cap_total 0\n" in told
    assert "decima_faults_total 0\n" in told
    assert output().index(f"{gone}Python is starting") < output().index(ended)
    assert "has not answered for 1.0 s" in output()


def test_auto_chooses_in_a_worker(spark: Spark, program: Path) -> None:
    """Spark's order until the simulator has played the priors; then the best policy plans."""
    port = free_port()
    command = spark.command(
        *SLEEP, program, *jobs(12_000),
        policy="auto", python=sys.executable, priors="tpch", metricsPort=port,
    )  # fmt: skip
    with running(spark, command):
        assert until(lambda: "decima_attached 1" in metrics(port), 120)
        assert "decima_plans_total 0" in metrics(port)
        assert until(lambda: "decima_worker 1" in metrics(port), 500)
        assert until(lambda: "decima_plans_total 0" not in metrics(port), 300)
    output = (spark.folder / "output").read_text()
    assert "instead of fifo: average JCT -" in output


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"polcy": "fifo", "required": "false"}, "spark.decima.polcy: no such setting"),
        ({"policy": "decima:sampled"}, "'decima:sampled' needs spark.decima.python"),
        ({"policy": "absent.safetensors"}, "absent.safetensors: no such file"),
        ({"maxSlotsPerJob": "0", "required": "false"}, "slots are whole numbers from 1 on"),
        ({"policy": "absent.safetensors", "python": sys.executable}, "absent.safetensors"),
    ],
    ids=lambda setting: "-".join(setting) if isinstance(setting, dict) else "",
)
def test_what_cannot_be_used_is_told_once_and_spark_goes_on(
    spark: Spark, program: Path, settings: dict[str, str], reason: str
) -> None:
    """One warning, a metric, and the jobs run as without us."""
    # A worker takes a while to find out; jobs run meanwhile.
    tasks = 700 if "python" in settings else 8
    output, told = spark.run(*SLEEP, program, *jobs(tasks), **settings)
    assert output.count("done ") == 4
    warnings = [line for line in told.splitlines() if "decima does not schedule" in line]
    assert len(warnings) == 1
    assert reason in warnings[0]
    assert (spark.metric("refused"), spark.metric("attached")) == (1, 0)


# --- prompts -------------------------------------------------------------------------------------


def test_spark_sql(spark: Spark) -> None:
    """A query, typed at its prompt: under its own log level one line names the policy."""
    output, log = spark.run("spark-sql", said=f"{QUERY};\n", policy="es_rule")
    assert sorted(line.split("\t")[0] for line in output.splitlines() if "\t" in line) == [*"012"]
    assert log.count("decima: policy decides: policy es_rule, mode exact") == 1
    assert " INFO " not in log
    assert_healthy(spark, 24)


def test_spark_shell(spark: Spark) -> None:
    said = """
def show(): Unit = println("rows " + spark.sql(query).collect().length)
val jobs = (1 to 2).map { _ => new Thread(() => show()) }
jobs.foreach(_.start()); jobs.foreach(_.join())
"""
    output, _ = spark.run(
        "spark-shell", said=f'val query = "{QUERY}"{said}:quit\n', policy="spark_fair"
    )
    assert output.count("rows 3") >= 2
    assert_healthy(spark, 48)
