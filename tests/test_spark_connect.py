"""Clients of Spark Connect, scheduled in their server: by the plugin, or an attached policy.

Slow (a minute): `pytest -m slow tests/test_spark_connect.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import decima.spark
from decima.spark import AttachError
from decima.spark.decision_log import read_decision_log
from decima.spark.jar import spark_jars
from tests.spark_applications import free_port, metric
from tests.spark_commands import QUERY, Spark, at_once, is_open, running
from tests.spark_work import local_spark, until

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

CLIENT = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).create()
print(len(spark.sql(sys.argv[2]).collect()))
spark.stop()
"""


@pytest.fixture(autouse=True)
def packages() -> None:
    for name in ("grpc", "grpc_status", "pandas"):
        pytest.importorskip(name, reason="pip install 'decima-scheduler[connect]'")


def two_clients(spark: Spark, port: int) -> None:
    """Run a query of 24 tasks as ann and one as bob, at the same time."""
    spark.environment["SPARK_CONNECT_MODE_ENABLED"] = "1"
    clients = [
        [sys.executable, "-c", CLIENT, f"sc://127.0.0.1:{port}/;user_id={name}", QUERY]
        for name in ("ann", "bob")
    ]
    outputs = at_once(spark, *clients)
    assert [output.split()[-1:] for output in outputs] == [["3"], ["3"]], outputs


def test_clients_of_a_server_with_the_plugin(spark: Spark) -> None:
    """Known by their names: no client has more than three slots."""
    port, watched = free_port(), free_port()
    server = spark.command(
        "spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", f"spark.connect.grpc.binding.port={port}", "spark-internal",
        policy="es_rule", metricsPort=watched, maxSlotsPerUser=3,
    )  # fmt: skip
    with running(spark, server):
        assert until(lambda: is_open(port), 120)
        two_clients(spark, port)
        assert metric(watched, "decima_attached") == 1
        assert metric(watched, "decima_launches_under_limit_total") >= 48
        assert metric(watched, "decima_refused_offers_total") > 0
        assert metric(watched, "decima_launches_over_cap_total") == 0


def test_clients_of_a_driver_with_an_attached_policy(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy tells their jobs apart; a client, which has no way to the scheduler, is told where
    to attach.
    """
    if not list(spark_jars().glob("spark-connect_*.jar")):
        pytest.skip("this Spark has its Connect server in a jar of its own")
    port, log = free_port(), tmp_path / "log.jsonl"
    with local_spark(
        spark_plugins="org.apache.spark.sql.connect.SparkConnectPlugin",
        spark_connect_grpc_binding_address="127.0.0.1",
        spark_connect_grpc_binding_port=str(port),
    ) as session:
        with decima.spark.attach(
            session, policy="strict_fair", mode="exact", decision_log=log
        ) as scheduler:
            two_clients(spark, port)
            counters = scheduler.status().jvm
        assert counters["launches_under_limit"] >= 48
        assert (counters["launches_over_limit"], counters["faults"]) == (0, 0)
        logged = read_decision_log(log)
        assert len({job.key for job in logged.jobs}) == 2
        assert any(plan.limits for plan in logged.plans)
        with monkeypatch.context() as patched:
            patched.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
            with pytest.raises(
                AttachError, match=r"this is Spark Connect: .* attach in the driver"
            ):
                decima.spark.attach(session, policy="strict_fair")
