"""Clients of Spark Connect, scheduled by a policy that is attached in their server.

Slow (a minute): `pytest -m slow tests/test_spark_connect.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import decima.spark
from decima.spark import AttachError
from decima.spark.decision_log import read_decision_log
from tests.spark_applications import free_port
from tests.spark_work import quiet_spark

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

CLIENT = """
import sys
import threading
from pyspark.sql import SparkSession

def query(spark):
    nap = "java_method('java.lang.Thread', 'sleep', 100L)"
    naps = spark.range(0, 12, 1, 12).selectExpr("id % 3 AS part", f"{nap} AS slept")
    found = len(naps.groupBy("part").agg({"slept": "max"}).collect())
    sys.stdout.write(f"{found}\\n")  # in one piece: the threads write at the same time

sessions = [SparkSession.builder.remote(sys.argv[1]).create() for _ in range(2)]
threads = [threading.Thread(target=query, args=(one,)) for one in sessions]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for session in sessions:
    session.stop()  # else its connection is closed when Python ends, which waits for ever
"""


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Any, str]]:
    """A classic driver that serves Connect, and its address; on this machine only."""
    for name in ("grpc", "grpc_status", "pandas"):
        pytest.importorskip(name, reason="pip install 'decima-scheduler[connect]'")
    import pyspark

    if not list((Path(pyspark.__file__).parent / "jars").glob("spark-connect_*.jar")):
        pytest.skip("this Spark has its Connect server in a jar of its own")
    port = free_port()
    spark = quiet_spark(
        spark_plugins="org.apache.spark.sql.connect.SparkConnectPlugin",
        spark_connect_grpc_binding_address="127.0.0.1",
        spark_connect_grpc_binding_port=str(port),
    )
    yield spark, f"sc://127.0.0.1:{port}"
    spark.stop()


def test_clients_of_connect_are_scheduled(server: tuple[Any, str], tmp_path: Path) -> None:
    """Two at once, whose jobs the policy tells apart."""
    spark, address = server
    log = tmp_path / "log.jsonl"
    with decima.spark.attach(
        spark, policy="strict_fair", mode="exact", decision_log=log
    ) as scheduler:
        result = subprocess.run(  # noqa: S603 - our own code
            [sys.executable, "-c", CLIENT, address],
            env={**os.environ, "SPARK_CONNECT_MODE_ENABLED": "1"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        status = scheduler.status()
    assert result.stdout.split() == ["3", "3"], result.stderr[-2_000:]
    assert status.jvm["launches_under_limit"] >= 2 * 12
    assert (status.jvm["launches_over_limit"], status.jvm["faults"], status.fallbacks) == (0, 0, 0)
    logged = read_decision_log(log)
    assert len({job.key for job in logged.jobs}) == 2
    assert any(plan.limits for plan in logged.plans)


def test_a_client_is_told_where_to_attach(
    server: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no way to the scheduler."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(AttachError, match=r"this is Spark Connect: .* attach in the driver"):
        decima.spark.attach(server[0], policy="strict_fair")
