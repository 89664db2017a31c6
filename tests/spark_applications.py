"""A standalone cluster, its coordinator and its applications, each in processes of their own."""

from __future__ import annotations

import json
import os
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

from decima.spark.jar import PLUGIN, spark_jars
from traces.loopback import LOOPBACK

ROOT = Path(__file__).parents[1]
PATIENCE_S = 240.0
SECRET = b"0123456789abcdef"
"""a JVM starts in half of the CPU time, on machines of few cores"""


def until(is_true: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition, or fail with its name."""
    end_s = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < end_s, f"not within {patience_s:g} s: {what}"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def page(port: int, path: str) -> str:
    """What a server on loopback answers; nothing before it is up."""
    try:
        return str(urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10).read().decode())
    except OSError:
        return ""


def metrics(port: int) -> str:
    """What Prometheus would read."""
    return page(port, "metrics")


def metric(port: int, name: str) -> float:
    (line,) = [line for line in metrics(port).splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


@contextmanager
def standalone(
    folder: Path, workers: int, cores: int, *, is_spread: bool = False, **options: str
) -> Iterator[str]:
    """A master on loopback and so many workers of so many cores; its URL.

    Each worker has a host of its own if `is_spread`: Spark runs no speculative copy on the host of
    the original.
    """
    home = spark_jars().parent
    environment = {
        **os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m", **options,
    }  # fmt: skip
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, path: Path, host: str, *arguments: str) -> None:
        command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{name}"]
        with path.open("w") as log:
            process = subprocess.Popen(  # noqa: S603 - Spark's own launcher
                [*command, "--host", host, *arguments],
                env=environment, stdout=log, stderr=log,
            )  # fmt: skip
        running.append(process)

    def add_worker(number: int) -> None:
        work = folder / f"work{number}"
        log = work.with_suffix(".log")
        start(
            "worker.Worker", log, f"127.0.0.{1 + number * is_spread}",
            "--webui-port", "0", "--cores", str(cores), "--memory", f"{cores}g",
            "--work-dir", str(work), url,
        )  # fmt: skip
        until(lambda: "registered with master" in log.read_text(), "a worker")

    port = str(free_port())
    url = f"spark://127.0.0.1:{port}"
    try:
        ports = ("--port", port, "--webui-port", "0")
        start("master.Master", folder / "master.log", "127.0.0.1", *ports)
        for number in range(workers):
            add_worker(number)
        yield url
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(timeout=30)


class CoordinatorProcess:
    """`decima coordinate` in a process."""

    def __init__(self, folder: Path, slots: int, port: int, *options: str) -> None:
        self.secret, self._log = folder / "secret", folder / f"coordinator{time.time_ns()}.log"
        self.secret.write_bytes(SECRET)
        self.secret.chmod(0o600)
        self.port, self._status = port, free_port()
        command = [
            sys.executable, "-m", "decima.cli.main", "coordinate", "--listen", f"127.0.0.1:{port}",
            "--slots", str(slots), "--secret-file", str(self.secret),
            "--status-port", str(self._status), *options,
        ]  # fmt: skip
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)  # noqa: S603
        until(lambda: "status:" in self._log.read_text(), "the coordinator")

    def applications(self) -> dict[str, tuple[int, int]]:
        """Registered executors and target by name."""
        jobs = json.loads(page(self._status, "status.json"))["jobs"]
        return {job["name"]: (job["held"], job["limit"]) for job in jobs}

    def metric(self, name: str) -> float:
        return metric(self._status, name)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Application:
    """A driver in a process."""

    def __init__(
        self,
        folder: Path,
        master: str,
        jar: Path,
        name: str,
        coordinator: CoordinatorProcess,
        **conf: str,
    ) -> None:
        settings = {
            **LOOPBACK,
            "spark.master": master, "spark.app.name": name, "spark.plugins": PLUGIN,
            "spark.driver.extraClassPath": str(jar), "spark.executor.extraClassPath": str(jar),
            "spark.driver.memory": "512m", "spark.executor.memory": "512m",
            "spark.executor.cores": "1", "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.scheduler.minRegisteredResourcesRatio": "0",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.decima.coordinator": f"127.0.0.1:{coordinator.port}",
            "spark.decima.coordinatorSecretFile": str(coordinator.secret),
            "spark.decima.coordinatorPatience": "5s",
            **conf,
        }  # fmt: skip
        self.is_killed = False
        self.log = folder / f"{name}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "tests.application_driver", json.dumps(settings)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT,
                start_new_session=True,
            )  # fmt: skip
        assert self._answer() == "ready"

    def begin(self, tasks: int, seconds: float, keys: int | None = None) -> None:
        """Begin a job of sleeping tasks, shuffled by `keys` if these are given."""
        assert self.process.stdin is not None
        shuffled = "" if keys is None else f" {keys}"
        self.process.stdin.write(f"{tasks} {seconds}{shuffled}\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Wait for the job's end; its number of rows, or the sum of what it shuffled."""
        return int(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline().strip()
        assert answer, self.log.read_text()[-3_000:]
        return answer

    def kill(self) -> None:
        """Kill the driver: Python and its JVM."""
        self.is_killed = True
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None and self.process.stdin is not None:
            self.process.stdin.close()
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.kill()
