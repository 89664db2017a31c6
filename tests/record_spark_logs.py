"""Record the small Spark event logs in `tests/data/spark_logs`.

    python tests/record_spark_logs.py --python 4.3=python --python 3.5=OTHER_VENV/bin/python

Each scenario runs as a process of its own under the Python given for its Spark version; what it
logs is scrubbed of the machine's paths and written again by Spark's own compression codec.
Scenarios whose Spark version is not given are left as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data" / "spark_logs"
PADDING_BYTES = 3 << 20
"""a job property of this size fills a rolling log's smallest file (10 MiB) with four jobs"""


class Scenario(NamedTuple):
    """One log to record."""

    version: str
    """Spark version, major.minor"""
    workload: str
    """name of a function of `WORKLOADS`"""
    settings: dict[str, str]
    master: str = "local[2]"


COMMON = {
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "true",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "3",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
}
PLAIN = {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}
ROLLING = {"spark.eventLog.rolling.enabled": "true"}
WHOLE_DAG = {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}


def compressed(codec: str) -> dict[str, str]:
    """Settings of one compressed file."""
    return {
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "true",
        "spark.eventLog.compression.codec": codec,
    }


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "50ms",
}

SCENARIOS: dict[str, Scenario] = {
    "spark-3.3-lz4": Scenario("3.3", "queries", {**compressed("lz4"), **WHOLE_DAG}),
    "spark-3.5-plain": Scenario("3.5", "query", {**PLAIN, **WHOLE_DAG}),
    "spark-3.5-adaptive-zstd": Scenario("3.5", "queries", compressed("zstd")),
    "spark-4.0-default": Scenario("4.0", "queries", WHOLE_DAG),
    "spark-4.3-default": Scenario("4.3", "queries", {}),
    "spark-4.3-zstd": Scenario("4.3", "queries", {**compressed("zstd"), **WHOLE_DAG}),
    "spark-4.3-lz4": Scenario("4.3", "query", {**compressed("lz4"), **WHOLE_DAG}),
    "spark-4.3-snappy": Scenario("4.3", "query", {**compressed("snappy"), **WHOLE_DAG}),
    "spark-4.3-rolled": Scenario(
        "4.3", "padded", {**ROLLING, "spark.eventLog.rolling.maxFileSize": "10m"}
    ),
    "spark-4.3-inprogress": Scenario("4.3", "killed", compressed("zstd")),
    "spark-4.3-failures": Scenario("4.3", "failures", compressed("zstd"), "local[2, 3]"),
    "spark-4.3-lost-executor": Scenario(
        "4.3", "lost_executor", compressed("zstd"), "local-cluster[2,1,512]"
    ),
    "spark-4.3-speculation": Scenario(
        "4.3", "speculation", {**compressed("zstd"), **SPECULATION}, "two hosts"
    ),
}


# Workloads: `spark` is a SparkSession. They run under several Spark versions and must import
# nothing that a bare pyspark lacks.


def tables(spark: Any) -> tuple[Any, Any]:
    """Two tables: 400 orders in 4 partitions, 7 customers in 2."""
    orders = spark.range(0, 400, 1, 4).selectExpr("id", "id % 7 AS customer", "id % 5 AS price")
    customers = spark.range(0, 7, 1, 2).selectExpr("id AS customer", "id % 3 AS region")
    return orders, customers


def query(spark: Any) -> None:
    """A join, summed and sorted: one SQL execution of several Spark jobs."""
    orders, customers = tables(spark)
    spark.sparkContext.setJobDescription("revenue by region")
    joined = orders.join(customers, "customer").groupBy("region").sum("price")
    joined.orderBy("region").collect()


def queries(spark: Any) -> None:
    """A sorted join and a broadcast join, each a SQL execution, and two jobs of one job group."""
    query(spark)
    context = spark.sparkContext
    orders, customers = tables(spark)
    context.setJobDescription("big orders")
    orders.join(customers.hint("broadcast"), "customer").where("price > 3").count()
    context.setJobDescription(None)
    context.setJobGroup("nightly", "nightly report")
    # A Java RDD: Spark 3.3 cannot send Python functions from Python 3.11.
    numbers = spark.range(0, 8, 1, 4)._jdf.javaRDD()
    numbers.count()
    numbers.count()


def padded(spark: Any) -> None:
    """Jobs with a property so large that the log rolls over."""
    spark.sparkContext.setLocalProperty("padding", "x" * PADDING_BYTES)
    for index in range(3):
        spark.sparkContext.setJobDescription(f"padded {index}")
        spark.range(0, 10, 1, 2).count()


def killed(spark: Any) -> None:
    """A finished job, then the driver dies in the middle of another."""
    spark.sparkContext.setJobDescription("finished")
    spark.range(0, 10, 1, 2).count()
    sleeping = spark.range(0, 4, 1, 4).selectExpr(
        "java_method('java.lang.Thread', 'sleep', 20000L)"
    )

    def cut_short() -> None:
        spark.sparkContext.setJobDescription("cut short")
        sleeping.collect()

    driver = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    threading.Thread(target=cut_short, daemon=True).start()
    time.sleep(4.0)  # the job has begun and its start is in the log
    os.kill(driver, signal.SIGKILL)
    os._exit(0)


def failures(spark: Any) -> None:
    """Two tasks fail on their first attempt; a later job fails for good."""
    context = spark.sparkContext

    def flaky(index: int, rows: Iterator[int]) -> Iterator[int]:
        from pyspark import TaskContext

        attempt = TaskContext.get().attemptNumber()  # type: ignore[union-attr]
        if attempt == 0 and index % 2 == 1:
            raise ValueError("first attempt of an odd partition")
        return rows

    context.setJobDescription("flaky")
    context.parallelize(range(8), 4).mapPartitionsWithIndex(flaky).count()
    context.setJobDescription("hopeless")
    broken = context.parallelize(range(2), 2).map(lambda number: 1 // (number - number))
    try:
        broken.count()
    except Exception as error:  # noqa: BLE001 - Py4JJavaError, whose module differs by version
        sys.stderr.write(f"failed as planned: {type(error).__name__}\n")


def lost_executor(spark: Any) -> None:
    """An executor dies between two jobs that share a shuffle: fetch failure, stages retried."""
    context = spark.sparkContext
    context.setJobGroup("sums", "sums per key")
    pairs = context.parallelize(range(40), 4).map(lambda number: (number % 5, number))
    sums = pairs.reduceByKey(lambda left, right: left + right, 3)
    sums.count()
    victim = context._jsc.sc().getExecutorIds().head()
    pid_of = context.parallelize([0], 1).map(lambda _: 0)
    pid_of.count()
    context._jsc.sc().killExecutor(victim)
    sums.count()


def speculation(spark: Any) -> None:
    """One task sleeps on its first attempt; its copy on the other host wins."""
    context = spark.sparkContext

    def slow_at_first(index: int, rows: Iterator[int]) -> Iterator[int]:
        from pyspark import TaskContext

        attempt = TaskContext.get().attemptNumber()  # type: ignore[union-attr]
        # Long enough for Spark to start a copy of the slow one.
        time.sleep(8.0 if index == 3 and attempt == 0 else 0.3)
        return rows

    context.setJobDescription("one straggler")
    context.parallelize(range(4), 4).mapPartitionsWithIndex(slow_at_first).count()
    time.sleep(5.0)  # the loser's end is logged when its worker has been killed


WORKLOADS: dict[str, Callable[[Any], None]] = {
    work.__name__: work
    for work in (query, queries, padded, killed, failures, lost_executor, speculation)
}


def run_workload(scenario: Scenario, name: str, folder: Path) -> None:
    """Run one scenario in this process, its event log going to `folder`."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in {**COMMON, **scenario.settings}.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.eventLog.dir", folder.as_uri())
    with cluster(scenario.master, folder) as master:
        spark = builder.master(master).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        WORKLOADS[scenario.workload](spark)
        spark.stop()


@contextmanager
def cluster(master: str, scratch: Path) -> Iterator[str]:
    """The master's address; "two hosts" is a cluster of our own on two loopback addresses.

    Spark never runs a speculative copy on the host of the original. Its workers write
    beside the folder `scratch`.
    """
    if master != "two hosts":
        yield master
        return
    import pyspark

    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    with socket.socket() as free:  # other clusters may run on this machine
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = f"spark://127.0.0.1:{port}"
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", port]]
    for host in ("127.0.0.1", "127.0.0.2"):
        resources = ["--cores", "2", "--memory", "1200m", "--work-dir", str(scratch.parent / host)]
        worker = [f"{deploy}.worker.Worker", "--host", host, *resources]
        commands.append([*worker, address])
    processes = [
        subprocess.Popen([spark_class, *command], stderr=subprocess.DEVNULL)  # noqa: S603
        for command in commands
    ]
    try:
        time.sleep(8.0)  # master and workers find each other
        yield address
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def scrub(line: str, replacements: dict[str, str]) -> str:
    """One event without the machine: its paths, its host's name, its Java set-up."""
    for original, instead in replacements.items():
        line = line.replace(original, instead)
    if line.startswith('{"Event":"SparkListenerEnvironmentUpdate"'):
        event = json.loads(line)
        for section in event:
            if section not in ("Event", "Spark Properties"):
                event[section] = {}
        return json.dumps(event, separators=(",", ":"))
    return re.sub(r'"Log Urls":\{[^}]*\}', '"Log Urls":{}', line)


class Codec:
    """Spark's own compression, through the JVM of the newest Spark given."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm

    def _codec(self, name: str) -> Any:
        conf = self._jvm.org.apache.spark.SparkConf(False)
        return self._jvm.org.apache.spark.io.CompressionCodec.createCodec(conf, name)

    def read(self, path: Path) -> bytes:
        """The decompressed content; of a file cut short, the part before the cut."""
        name = codec_of(path)
        if name is None:
            return path.read_bytes()
        source = self._jvm.java.io.FileInputStream(str(path))
        stream = self._codec(name).compressedContinuousInputStream(source)
        content = bytearray()
        while True:
            try:
                piece = bytes(stream.readNBytes(1 << 16))
            except Exception:  # noqa: BLE001 - EOFException of a file that was never closed
                break
            if not piece:
                break
            content += piece
        return bytes(content)

    def write(self, path: Path, content: bytes) -> None:
        """Write `content` the way the event log does; a log in progress is flushed, not closed."""
        name = codec_of(path)
        if name is None:
            path.write_bytes(content)
            return
        target = self._jvm.java.io.FileOutputStream(str(path))
        stream = self._codec(name).compressedContinuousOutputStream(target)
        for start in range(0, len(content), 1 << 20):
            stream.write(content[start : start + (1 << 20)])
        stream.flush()
        if path.name.endswith(".inprogress"):
            target.close()
        else:
            stream.close()


def codec_of(path: Path) -> str | None:
    """The codec that a log's name tells, as Spark names them."""
    name = path.name.removesuffix(".inprogress")
    return next((codec for codec in ("zstd", "lz4", "snappy") if name.endswith(f".{codec}")), None)


def keep(raw: Path, target: Path, codec: Codec, replacements: dict[str, str]) -> None:
    """Copy the logs below `raw` to `target`, scrubbed."""
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted(raw.rglob("*")):
        if path.is_dir() or path.name.startswith("."):
            continue
        destination = target / path.relative_to(raw)
        destination.parent.mkdir(parents=True, exist_ok=True)
        lines = codec.read(path).decode().split("\n")
        text = "\n".join(scrub(line, replacements) for line in lines)
        codec.write(destination, text.encode())


def record(name: str, python: Path, codec: Codec) -> None:
    """Run a scenario under `python` and keep its log in `DATA`."""
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch) / "logs"
        raw.mkdir()
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
            "SPARK_USER": "spark",
            "PYSPARK_PYTHON": str(python),
        }
        command = [str(python), str(Path(__file__).resolve()), "--run", name, "--into", str(raw)]
        subprocess.run(command, env=environment, cwd=scratch, check=True)  # noqa: S603
        replacements = {
            f"{Path(__file__).resolve().parent}/": "",
            scratch: "/scratch",
            str(python.parent.parent): "/venv",
            f"{sys.base_prefix}/": "/python/",
            os.uname().nodename: "localhost",
        }
        keep(raw, DATA / name, codec, replacements)


def open_codec() -> Codec:
    """Start a JVM for the codecs."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    return Codec(SparkContext._jvm)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], help="VERSION=INTERPRETER")
    parser.add_argument("--only", action="append", help="scenarios to record (default: all)")
    parser.add_argument("--run", choices=sorted(SCENARIOS), help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        run_workload(SCENARIOS[options.run], options.run, options.into)
        return
    pythons = {
        key: Path(value).absolute() for key, value in (item.split("=") for item in options.python)
    }
    codec = open_codec()
    for name in options.only or SCENARIOS:
        python = pythons.get(SCENARIOS[name].version)
        if python is not None:
            record(name, python, codec)


if __name__ == "__main__":
    main()
