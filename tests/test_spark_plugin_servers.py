"""The plugin in Spark's own applications: its SQL prompt and shell, Thrift and Connect servers.

Slow (some minutes): `pytest -m slow tests/test_spark_plugin_servers.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.jvm import Classes
from tests.spark_applications import free_port
from tests.test_spark_plugin import (
    NEWEST,
    QUERY,
    Spark,
    assert_healthy,
    at_once,
    is_open,
    metrics,
    running,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

CLIENT = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).create()
print(len(spark.sql(sys.argv[2]).collect()))
spark.stop()
"""


@pytest.fixture
def spark(tmp_path: Path, classes: Classes) -> Spark:
    return Spark(NEWEST, classes.jar, tmp_path)


def test_spark_sql(spark: Spark) -> None:
    """A query, typed at its prompt: under its own log level one line names the policy."""
    output, log = spark.run("spark-sql", said=f"{QUERY};\n", policy="es_rule")
    assert sorted(line.split("\t")[0] for line in output.splitlines() if "\t" in line) == [*"012"]
    assert log.count("decima: policy decides: policy es_rule, mode exact") == 1
    assert " INFO " not in log
    assert_healthy(spark, 24)


def test_spark_shell(spark: Spark) -> None:
    """Two jobs at once, in Scala."""
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


def test_a_thrift_server_with_two_sessions(spark: Spark) -> None:
    """Two people with beeline, in two pools of which one has a cap."""
    port, watched = free_port(), free_port()
    server = spark.command(
        "spark-submit", "--conf", "spark.scheduler.mode=FAIR", "--class",
        "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "spark-internal", "--hiveconf",
        f"hive.server2.thrift.port={port}", "--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1",
        policy="strict_fair", metricsPort=watched, maxSlots_pool_small=2,
    )  # fmt: skip
    beeline = [
        str(spark.home / "bin" / "beeline"),
        "-u",
        f"jdbc:hive2://127.0.0.1:{port}",
        "-n",
        "ann",
    ]
    pool = "SET spark.sql.thriftserver.scheduler.pool=small;"
    with running(spark, server):
        until(lambda: is_open(port), 120)
        most_slots = at_once(spark, [*beeline, "-e", QUERY], [*beeline, "-e", f"{pool} {QUERY}"])
        told = metrics(watched)
    assert ["3 rows selected" in output for output in most_slots] == [True, True], most_slots
    values = dict(line.rsplit(" ", 1) for line in told.splitlines() if not line.startswith("#"))
    assert float(values["decima_attached"]) == 1
    assert float(values["decima_launches_under_limit_total"]) >= 48
    assert float(values["decima_refused_offers_total"]) > 0
    assert float(values["decima_launches_over_cap_total"]) == 0


def test_a_connect_server_with_two_clients(spark: Spark) -> None:
    """Known by their names: no client has more than three slots."""
    for name in ("grpc", "grpc_status", "pandas"):
        pytest.importorskip(name, reason="pip install 'decima-scheduler[connect]'")
    port, watched = free_port(), free_port()
    server = spark.command(
        "spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", f"spark.connect.grpc.binding.port={port}", "spark-internal",
        policy="es_rule", metricsPort=watched, maxSlotsPerUser=3,
    )  # fmt: skip
    with running(spark, server):
        until(lambda: is_open(port), 120)
        clients = [
            [sys.executable, "-c", CLIENT, f"sc://127.0.0.1:{port}/;user_id={name}", QUERY]
            for name in ("ann", "bob")
        ]
        most_slots = at_once(spark, *clients)
        told = metrics(watched)
    assert [output.split()[-1:] for output in most_slots] == [["3"], ["3"]], most_slots
    values = dict(line.rsplit(" ", 1) for line in told.splitlines() if not line.startswith("#"))
    assert float(values["decima_attached"]) == 1
    assert float(values["decima_launches_under_limit_total"]) >= 48
    assert float(values["decima_refused_offers_total"]) > 0
    assert float(values["decima_launches_over_cap_total"]) == 0
