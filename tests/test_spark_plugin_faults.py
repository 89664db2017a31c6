"""Promises to an operator when something is wrong: caps, the decision log, the worker's door.

Slow (ten minutes): `pytest -m slow tests/test_spark_plugin_faults.py`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.jvm import Classes
from tests.spark_applications import free_port, metric, metrics, page
from tests.spark_commands import (
    SLEEP,
    Spark,
    at_once,
    children,
    compiled,
    is_open,
    jobs,
    most,
    running,
)
from tests.spark_work import until

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

REFUSED = "decima does not schedule"
NAPS = "SELECT count(nap) FROM (SELECT {} FROM range(0, 16, 1, 16))"


def lines(text: str, words: str) -> list[str]:
    return [line for line in text.splitlines() if words in line]


# --- users ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["--jars", "spark.jars", "--driver-class-path"])
def test_caps_hold_after_the_first_session_of_a_thrift_server_has_closed(
    tmp_path: Path, classes: Classes, program: Path, way: str
) -> None:
    """Its end closes the class loader of `--jars`; no task has run by then. Two people with two
    statements each, and two slots each: counted inside the tasks.
    """
    jar = Path(f"{classes.jar},{program}") if way != "--driver-class-path" else program
    spark, port, watched = Spark(jar, tmp_path), free_port(), free_port()
    server = spark.command(
        "spark-submit", "--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
        "spark-internal", "--hiveconf", f"hive.server2.thrift.port={port}",
        "--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1",
        maxSlotsPerUser=2, metricsPort=watched,
    )  # fmt: skip
    jars = server.index("--jars")
    if way == "spark.jars":
        server[jars : jars + 2] = ["--conf", f"spark.jars={jar}"]
    elif way == "--driver-class-path":
        server[jars : jars + 2] = [way, f"{classes.jar}:{program}"]

    def beeline(user: str, query: str) -> list[str]:
        url = f"jdbc:hive2://127.0.0.1:{port}"
        return [str(spark.home / "bin" / "beeline"), "-u", url, "-n", user, "-e", query]

    def naps(user: str) -> list[str]:
        nap = f"java_method('SleepJobs', 'nap', concat('{user}', substr(id, 99))) AS nap"
        return beeline(user, NAPS.format(nap))

    with running(spark, server):
        assert until(lambda: is_open(port), 600)
        at_once(spark, beeline("eve", "SHOW DATABASES"))
        most_slots = at_once(spark, *(naps(user) for user in ("ann", "bob", "ann", "bob")))
        (most_at_once,) = at_once(spark, beeline("eve", "SELECT java_method('SleepJobs', 'peaks')"))
        state = metric(watched, "decima_state")
    assert [" 16 " in line for line in most_slots] == [True] * 4, most_slots
    assert "| ann 2 bob 2 " in most_at_once
    assert state == 3
    output = (spark.folder / "output").read_text()
    # Of the plugin's classes: Hive, too, looks for classes that Spark does not bring.
    assert re.findall(r"NoClassDefFoundError.*\bdecima\b.*", output) == []
    assert lines(output, "came without a user") == []


def test_a_job_without_a_user_is_told_once_where_users_have_caps(
    spark: Spark, program: Path
) -> None:
    """Kyuubi's property counts as a user; a job that names none is not held up."""
    output, told = spark.run(*SLEEP, program, "a,,g,20", "b,,g,20", "c,bob,g,20", maxSlotsPerUser=2)
    assert (output.count("done "), most(output)["user bob"]) == (3, 2)
    assert len(lines(told, "came without a user")) == 1


# --- caps fail closed ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"polcy": "fifo", "required": "false"}, "spark.decima.polcy: no such setting"),
        ({"policy": "tuned_srw", "parameters": "/nowhere.json"}, "/nowhere.json"),
        ({"policy": "sjf_cp", "python": "/nowhere/python"}, "/nowhere/python"),
        ({"policy": "sjf_cp", "python": "/bin/false"}, "/bin/false"),
        ({"policy": "absent.safetensors", "python": sys.executable}, "absent.safetensors"),
    ],
    ids=lambda warning: "-".join(warning) if isinstance(warning, dict) else "",
)
def test_caps_hold_whatever_is_wrong_with_other_settings(
    spark: Spark, program: Path, settings: dict[str, str], reason: str
) -> None:
    """The reason is told first, then the state; two slots for ann, before it and after."""
    tasks = 120 if "python" in settings else 10
    output, told = spark.run(*SLEEP, program, *jobs(tasks), maxSlots_user_ann=2, **settings)
    assert (output.count("done "), most(output)["user ann"]) == (4, 2)
    warnings = lines(told, "WARN DecimaPlugin")
    # A slow machine sees more of the states in between.
    warnings = [warning for warning in warnings if "decima: policy decides" not in warning]
    refusal, state, *later = [warning for warning in warnings if "decima: stand-in" not in warning]
    assert not any("decima: nothing" in warning for warning in later)
    assert REFUSED in refusal
    assert reason in refusal
    assert "decima: caps only: {user ann=2}, " in state
    assert reason in state
    assert (spark.metric("refused"), spark.metric("launches_over_cap")) == (1, 0)


IN_CLUSTER = ("--master", "local-cluster[1,1,512]", "--conf", "spark.executor.memory=512m")


@pytest.mark.parametrize(
    ("name", "options", "printed", "warning"),
    [
        # A scheduler that is never heard again is abandoned; task sets that have ended are dropped.
        ("silent", (), ["abandoned", "1", "most", "2", "left", "0"], "caps go on to hold"),
        # The start of a statement was not read within a second: it may be any user's.
        ("lost", (), ["most", "2"], "so the caps of all users hold for it"),
        # The backend of an application is gone when the scheduler lets go: nothing is offered.
        ("late", IN_CLUSTER, ["attached", "false"], None),
    ],
)
def test_control_when_a_part_is_missing(
    spark: Spark,
    classes: Classes,
    name: str,
    options: tuple[str, ...],
    printed: list[str],
    warning: str | None,
) -> None:
    """Caps of two hold without the planner, and for a statement of an unknown user."""
    jar = compiled(spark.folder, classes, "Controls", 8)
    output, log = spark.run(
        "spark-submit", "--conf", "spark.plugins=", *options, "--class", "decima.spark.Controls",
        jar, name,
    )  # fmt: skip
    assert output.split() == printed
    if warning is None:
        assert lines(log, " ERROR ") == []
    else:
        assert len(lines(log, warning)) == 1


def test_a_driver_that_was_paused_goes_on_to_plan(spark: Spark, program: Path) -> None:
    """Pause the driver for longer than the silence after which a scheduler is given up."""
    port = free_port()
    command = spark.command(
        *SLEEP, program, *jobs(400), lapse="100ms", maxSlots_user_ann=2, metricsPort=port
    )
    with running(spark, command) as process:
        assert until(lambda: "decima_schedules 1" in metrics(port), 120)
        (driver,) = children(process.pid, "org.apache.spark.deploy.SparkSubmit")
        os.kill(driver, signal.SIGSTOP)
        time.sleep(4)  # longer than the silence that is allowed
        os.kill(driver, signal.SIGCONT)
        time.sleep(2)  # a scheduler that was given up would be so by now
        assert until(lambda: "decima_schedules 1" in metrics(port), 30)
        assert metric(port, "decima_abandoned_total") == 0
        assert process.wait(timeout=300) == 0
    assert most((spark.folder / "output").read_text())["user ann"] == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"maxSlotPerJob": "2"},
        {"polcy": "fifo", "maxSlotsPerJob": "2"},
        {"required": "true", "policy": "tuned_srw", "parameters": "/nowhere.json"},
        {"required": "true", "policy": "sjf_cp", "python": "/bin/false"},
    ],
    ids="-".join,
)
def test_an_application_stops_where_what_it_requires_is_refused(
    spark: Spark, program: Path, settings: dict[str, str]
) -> None:
    """By default each cap that it was given; with `required` the policy, too."""
    done = subprocess.run(  # noqa: S603 - Spark's own
        spark.command(
            *SLEEP, program, *jobs(900), **settings,
        ),
        cwd=spark.folder, env=spark.environment,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "done " not in done.stdout
    assert done.returncode != 0 or "python" in settings
    assert "the application stops (spark.decima.required)" in done.stderr
    wrong = [*settings, *settings.values()]
    assert any(
        setting.replace("_", ".") in done.stderr for setting in wrong if setting != "required"
    )


# --- what is seen --------------------------------------------------------------------------------


def test_sparks_own_page_shows_the_state(spark: Spark, program: Path) -> None:
    """Among the properties of its environment, and as a gauge of its metrics."""
    port = free_port()
    command = spark.command(
        "spark-submit", "--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={port}",
        "--class", "SleepJobs", program, *jobs(600), policy="fifo",
    )  # fmt: skip

    def is_listed() -> bool:
        """Return the data of the Environment page, which the browser draws."""
        (name,) = re.findall(r'"id" : "([^"]+)"', page(port, "api/v1/applications")) or [""]
        row = '"decima.status", "policy decides: policy fifo, mode exact"'
        return row in page(port, f"api/v1/applications/{name}/environment")

    with running(spark, command):
        assert until(is_listed, 120)
        assert until(lambda: ".schedules" in page(port, "metrics/json/"), 60)
        gauges = json.loads(page(port, "metrics/json/"))["gauges"]
        (name,) = [name for name in gauges if re.search(r"DecimaPlugin.*\.schedules$", name)]
        assert gauges[name]["value"] == 1


# --- the decision log ----------------------------------------------------------------------------


def test_what_ended_a_second_before_a_kill_is_in_the_decision_log(
    spark: Spark, program: Path
) -> None:
    """The driver with -9, while one job runs; the three others ended before."""
    port, log = free_port(), spark.folder / "log.jsonl"
    command = spark.command(
        *SLEEP, program,
        "a,ann,g,9000", "b,ann,h,200", "c,bob,i,200", "d,bob,j,200",
        policy="strict_fair", decisionLog=log, metricsPort=port,
    )  # fmt: skip
    with running(spark, command) as process:
        assert until(lambda: "decima_attached 1" in metrics(port), 240)
        output = spark.folder / "output"
        assert until(lambda: output.read_text().count("done ") == 3, 120)
        time.sleep(1.0)  # rows are written half a second after an end
        (driver,) = children(process.pid, "org.apache.spark.deploy.SparkSubmit")
        os.kill(driver, signal.SIGKILL)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    ended = [row["job"] for row in records if row.get("completion_ms") is not None]
    assert sorted(ended) == ["job b", "job c", "job d"]


# --- the worker's door ---------------------------------------------------------------------------


def test_nobody_keeps_the_worker_from_being_heard(spark: Spark, program: Path) -> None:
    """One who says a byte every two seconds, one who says nothing, and one who asks for memory;
    then the worker, which here is this test.
    """
    worker = spark.folder / "worker"
    worker.write_text("#!/bin/sh\nenv | grep DECIMA_PLUGIN > told\nmv told ready\nexec sleep 600\n")
    worker.chmod(0o700)
    command = spark.command(*SLEEP, program, *jobs(900), policy="sjf_cp", python=worker)
    with running(spark, command):
        assert until((spark.folder / "ready").exists, 120)
        told = dict(re.findall(r"(\w+)=(.*)", (spark.folder / "ready").read_text()))
        place = ("127.0.0.1", int(told["DECIMA_PLUGIN_PORT"]))
        silent = [socket.create_connection(place, timeout=20) for _ in range(20)]
        greedy = socket.create_connection(place, timeout=20)
        greedy.sendall(struct.pack(">I", (1 << 28) - 16) + b"x" * 10)
        slow = socket.create_connection(place, timeout=20)
        slow.sendall(struct.pack(">I", 1_000))
        began = time.monotonic()
        with socket.create_connection(place, timeout=20) as end:
            hello = json.dumps({"secret": told["DECIMA_PLUGIN_SECRET"]}).encode()
            end.sendall(struct.pack(">I", len(hello)) + hello)
            (length,) = struct.unpack(">I", end.recv(4))
            settings = json.loads(end.recv(length))
            assert time.monotonic() - began < 2
        assert settings["policy"] == "sjf_cp"
        assert greedy.recv(1) == b""
        for _ in range(3):
            slow.sendall(b" ")
            time.sleep(2)  # a byte at a time, as a slow peer
        assert slow.recv(1) == b"", "one deadline for the whole hello"
        assert [connection.recv(1) for connection in silent] == [b""] * 20
