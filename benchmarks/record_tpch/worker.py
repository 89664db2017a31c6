"""The process that runs the queries: `python -m benchmarks.record_tpch.worker ORDERS.json`.

It is a separate process because PySpark holds one driver for the life of a process, and to separate
Spark's output from the caller's. It writes one JSON object a line to standard output: first the
facts of the session, then each run as it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

START_TIMEOUT_S = 180.0


def main() -> None:
    orders = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    with driver(orders["command"]):
        try:
            record(orders)
        except Py4JJavaError as error:  # its text belongs to the driver, which is about to end
            raise SystemExit(str(error.java_exception.toString()).splitlines()[0]) from None


def record(orders: Mapping[str, Any]) -> None:
    """Run query after query in one session; views follow the size of the data."""
    spark = SparkSession.builder.master(orders["master"]).appName(orders["name"]).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    system = spark.sparkContext._jvm.java.lang.System  # type: ignore[union-attr]
    java = f"{system.getProperty('java.version')} ({system.getProperty('java.vendor')})"
    tell({"spark": spark.version, "java": java})
    folder, begun = None, time.monotonic()
    for run in orders["runs"]:
        if run["repetition"] > 1 and time.monotonic() - begun > orders["time_limit_s"]:
            break
        if run["tables"] != folder:
            folder = run["tables"]
            spark.sparkContext.setJobDescription("schemas")
            for table in sorted(Path(folder).iterdir()):
                spark.read.parquet(str(table)).createOrReplaceTempView(table.name)
        for key, value in run["settings"].items():
            spark.conf.set(key, value)
        spark.sparkContext.setJobDescription(run["description"])
        started = time.monotonic()
        rows = len(spark.sql(run["sql"]).collect())
        wall_s = time.monotonic() - started
        tell(
            {
                "run": run["description"],
                "rows": rows,
                "wall_s": wall_s,
                "load": os.getloadavg()[0],
            }
        )
    spark.stop()


@contextlib.contextmanager
def driver(command: Sequence[str]) -> Iterator[None]:
    """Start the driver and pass its port to PySpark; it ends when its input closes."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "connection"
        environment = {**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(path)}
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=sys.stderr, env=environment
        )
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while not path.exists():  # the driver writes it whole
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("Spark's driver did not start")
                time.sleep(0.05)
            connection = path.read_bytes()
            port, length = struct.unpack_from(">ii", connection)
            os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
            os.environ["PYSPARK_GATEWAY_SECRET"] = connection[8 : 8 + length].decode()
            yield
        finally:
            process.terminate()
            process.wait()


def tell(fact: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
