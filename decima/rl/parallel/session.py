"""A Spark context for any master URL, or an error of one line.

Spark itself reports such errors late and at length: a missing master is tried for a
minute, and the driver's log goes to the terminal. So what can be known before is checked before,
and the output of the driver's JVM goes to a file, of which only the reason of a failure is shown.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from decima.rl.parallel.errors import ClusterError
from traces.files.names import one_line

OLDEST, NEWEST_MAJOR = (3, 5), 4
ENVIRONMENT = "environment"
"""folder as which an executor finds the archive"""
PROBE_S = 3.0
"""a master that does not answer within so many seconds is not there"""
_KUBERNETES_PORT = "443"

_LOCAL = re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]")
_STANDALONE = re.compile(r"spark://([^:/,\s]+:\d{1,5})(,[^:/,\s]+:\d{1,5})*")
_KUBERNETES = re.compile(r"k8s://(https?://)?([^:/\s]+)(:(\d{1,5}))?(/\S*)?")
_FORMS = "local[N], local-cluster[N,CORES,MB], spark://HOST:PORT, yarn or k8s://HOST:PORT"

_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    # What tasks record is bounded by the work, and the whole of it is wanted.
    "spark.driver.maxResultSize": "0",
    # Half the time of a short task is spent on the TCP connection to Python; Spark 3.5 has none.
    "spark.python.unix.domain.socket.enabled": "true",
}
_REASON = re.compile(r"(?:^|\s)(?:Caused by: )?(?:[\w$]+\.)+\w*(?:Exception|Error): (\S.*)")


def open_session(
    master: str,
    *,
    name: str,
    archive: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> Any:
    """A `pyspark.SparkContext` on `master`, whose chatter stays off the terminal.

    Args:
        master: any master URL of Spark.
        name: of the application, as Spark's own pages show it.
        archive: what `decima cluster pack` has made; executors then run its Python. Without it
            they run the Python of PYSPARK_PYTHON, else the path of this one.
        settings: of Spark, beside those that a file of its own sets.

    Raises:
        ClusterError: the URL is none, there is no master, this Spark has another version, no
            Java is found, or the cluster refuses; one line.
    """
    forms = (_LOCAL, _LOCAL_CLUSTER, _STANDALONE, _KUBERNETES)
    if master != "yarn" and not any(form.fullmatch(master) for form in forms):
        raise ClusterError(f"{master!r:.200} is no master URL of Spark: {_FORMS}")
    if archive is not None and not archive.is_file():
        raise ClusterError(f"{archive}: no such file; `decima cluster pack` makes an archive")
    if archive is not None and _LOCAL.fullmatch(master):
        raise ClusterError(f"{master} has no executors that could take the archive {archive}")
    spark = _pyspark()
    home = os.environ.get("JAVA_HOME")
    if shutil.which(f"{home}/bin/java" if home else "java") is None:
        where = f"below JAVA_HOME={home}" if home else "on the path"
        raise ClusterError(f"no java {where}: Spark's driver needs Java 17 (3.5: 8, 11 or 17)")
    _check_there(master)
    configuration = spark.SparkConf()
    for key, value in {**_SETTINGS, **(settings or {})}.items():
        configuration.set(key, value)
    configuration.setMaster(master).setAppName(name)
    if archive is not None:
        configuration.set("spark.archives", f"{archive.absolute().as_uri()}#{ENVIRONMENT}")
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        try:
            with _stderr_to(said):
                context = spark.SparkContext(conf=configuration)
        except Exception as error:
            raise ClusterError(f"{master}: {_reason(error, said)}") from error
    context.setLogLevel("OFF")
    # Not the environment variable: it would reach every child process. The path of an archive's
    # Python is relative to the executors' working folder.
    own_python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    context.pythonExec = own_python if archive is None else f"./{ENVIRONMENT}/bin/python"
    return context


def _pyspark() -> Any:
    try:
        spark = importlib.import_module("pyspark")
    except ImportError as error:
        raise ClusterError(
            "pyspark is not installed: pip install 'decima-scheduler[spark]'"
        ) from error
    version = tuple(int(part) for part in spark.__version__.split(".")[:2])
    if version < OLDEST or version[0] > NEWEST_MAJOR:
        raise ClusterError(f"pyspark {spark.__version__}: supported are 3.5 to 4.x")
    if spark.SparkContext._active_spark_context is not None:
        raise ClusterError("this process has a SparkContext already; stop it first")
    return spark


def _check_there(master: str) -> None:
    """Ask the ports of the URL: Spark would try for a minute."""
    if master == "yarn":
        if not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
            raise ClusterError("yarn: HADOOP_CONF_DIR or YARN_CONF_DIR must name its settings")
        return
    addresses: list[tuple[str, str]] = []
    if _STANDALONE.fullmatch(master):  # which may have standbys
        parts = (part.rpartition(":") for part in master.removeprefix("spark://").split(","))
        addresses = [(host, port) for host, _, port in parts]
    elif (match := _KUBERNETES.fullmatch(master)) is not None:
        addresses = [(match[2], match[4] or _KUBERNETES_PORT)]
    refused = []
    for host, port in addresses:
        if not 0 < int(port) < 2**16:
            raise ClusterError(f"{master}: {port} is no port")
        try:
            socket.create_connection((host, int(port)), timeout=PROBE_S).close()
            return
        except (OSError, UnicodeError) as error:  # a name may be no name at all
            refused.append(f"{host}:{port} ({getattr(error, 'strerror', None) or error})")
    if refused:
        raise ClusterError(f"{master}: no master answers: {', '.join(refused)}")


@contextmanager
def _stderr_to(file: IO[str]) -> Iterator[None]:
    """Let processes that start here write to `file` for good, where they would write to stderr."""
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)


def _reason(error: Exception, said: IO[str]) -> str:
    """Explain why the driver did not start: the last line of its log, else the error's text."""
    cause = getattr(error, "java_exception", None)
    if cause is not None:
        return one_line(str(cause.toString()), 500)
    said.seek(0)
    reasons = [match[1] for line in said if (match := _REASON.search(line)) is not None]
    return one_line(reasons[-1] if reasons else str(error), 500)
