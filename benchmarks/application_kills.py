"""Processes of a shared cluster killed or stopped at random: results, jobs and shares afterwards.

    python -m benchmarks.application_kills [--kills 50] [--stops 8] [--seed 0] -o FILE.json

A standalone master, two workers of two cores and three applications under a coordinator, all on
loopback. Every application runs jobs one after the other, each with a shuffle. At random moments a
process ends by SIGKILL, or stops for 30 s: the coordinator, a driver, an executor or a worker. What
an operator would start again is started again. A job whose driver was killed is run again; every
other job must end, and each with the right sum. Shares are restored once every application holds an
executor again, the targets use the cluster, and so do processes of executors.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from decima.spark.jar import plugin_jar
from tests.spark_applications import (
    LIGHT,
    Application,
    CoordinatorProcess,
    StandaloneCluster,
    free_port,
    standalone,
    until,
)
from traces.files.writing import write_json

APPLICATIONS, WORKERS, CORES = 3, 2, 2
SLOTS = WORKERS * CORES
TASKS, TASK_S, KEYS = 24, 0.4, 4
RIGHT = TASKS * (TASKS - 1) // 2
STOP_S = 30.0
PATIENCE_S = 180.0
LONGEST_PAUSE_S = 5.0
VICTIMS = ("coordinator", "driver", "executor", "worker")


class Client:
    """An application whose jobs follow each other; its driver may be killed and started again."""

    def __init__(self, start: Callable[[], Application]) -> None:
        self._start = start
        self.driver = start()
        self.ended = self.wrong = self.again = 0
        self.faults: list[str] = []
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over:
            driver = self.driver
            try:
                driver.begin(TASKS, TASK_S, KEYS)
                answer = driver.end()
            except (AssertionError, OSError, ValueError) as error:
                self._after_fault(driver, error)
                continue
            self.ended += 1
            self.wrong += answer != RIGHT

    def _after_fault(self, driver: Application, error: Exception) -> None:
        """Wait for the new driver of a killed one; a driver that fails by itself is a fault."""
        if driver.is_killed:
            self.again += 1
            until(lambda: self.driver is not driver or self._is_over, "a new driver")
        else:
            self.faults.append(str(error)[-500:])
            self._is_over = True

    def kill(self) -> None:
        """Kill the driver and start another."""
        self.driver.kill()
        self.driver = self._start()

    def close(self) -> None:
        """Let the job that runs end."""
        self._is_over = True
        self._thread.join(timeout=PATIENCE_S)
        if self._thread.is_alive():
            self.faults.append("the last job did not end")
        self.driver.stop()


class Scene:
    """The cluster, its coordinator and its applications."""

    def __init__(self, folder: Path, cluster: StandaloneCluster, seed: int) -> None:
        self.folder, self.cluster = folder, cluster
        self.coordinator = CoordinatorProcess(folder, SLOTS, free_port())
        self.clients = [Client(lambda k=number: self._driver(k)) for number in range(APPLICATIONS)]  # type: ignore[misc]
        self._rng = random.Random(seed)  # noqa: S311 - which process ends is no secret

    def _driver(self, number: int) -> Application:
        return Application(
            self.folder, self.cluster.url, plugin_jar(), f"app{number}", self.coordinator,
            **{"spark.cores.max": str(SLOTS), "spark.executor.extraJavaOptions": LIGHT},
        )  # fmt: skip

    def executors(self) -> list[int]:
        """Process numbers of this cluster's executors."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                is_ours = (folder / "cwd").resolve().is_relative_to(self.folder)
                if is_ours and b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:  # it ended meanwhile
                continue
        return found

    def is_restored(self) -> bool:
        """Return whether every application has its share again."""
        try:
            now = self.coordinator.applications()
        except OSError:
            return False
        names = {f"app{number}" for number in range(APPLICATIONS)}
        shares = [now.get(name, (0, 0)) for name in names]
        is_whole = set(now) == names and sum(limit for _, limit in shares) == SLOTS
        # The coordinator misses an executor later than the process table does.
        is_running = len(self.executors()) >= SLOTS
        return is_whole and is_running and all(held > 0 for held, _ in shares)

    def kill(self, victim: str) -> None:
        """End a process, and start again what its operator would."""
        if victim == "coordinator":
            port = self.coordinator.port
            self.coordinator.kill()
            self.coordinator = CoordinatorProcess(self.folder, SLOTS, port)
        elif victim == "driver":
            self._rng.choice(self.clients).kill()
        elif victim == "executor":
            os.kill(self._rng.choice(self.executors()), signal.SIGKILL)
        else:
            worker = self._rng.choice(self.cluster.workers)
            worker.kill()
            worker.wait()
            self.cluster.workers.remove(worker)
            self.cluster.add_worker()

    def stop(self, victim: str) -> None:
        """Stop a process for a while."""
        pid = {
            "coordinator": lambda: self.coordinator.process.pid,
            "driver": lambda: self._rng.choice(self.clients).driver.process.pid,
            "executor": lambda: self._rng.choice(self.executors()),
            "worker": lambda: self._rng.choice(self.cluster.workers).pid,
        }[victim]()
        send = os.killpg if victim == "driver" else os.kill
        send(pid, signal.SIGSTOP)
        time.sleep(STOP_S)
        send(pid, signal.SIGCONT)

    def strike(self, how: str) -> dict[str, Any]:
        """Kill or stop a random process, and wait until all is as before."""
        time.sleep(self._rng.uniform(0, LONGEST_PAUSE_S))
        victim = self._rng.choice(VICTIMS)
        getattr(self, how)(victim)
        began = time.monotonic()
        until(self.is_restored, f"{how} of the {victim}: shares restored", PATIENCE_S)
        restored_s = time.monotonic() - began
        print(f"{how} {victim}: {restored_s:.1f} s", flush=True)
        return {"how": how, "victim": victim, "restored_s": restored_s}


def show(strikes: list[dict[str, Any]], clients: list[Client]) -> None:
    """A row for each kind of strike, then the jobs."""
    print("| what | process | times | restored after, median | longest |")
    print("|---|---|---|---|---|")
    for how in ("kill", "stop"):
        for victim in VICTIMS:
            took_s = [
                one["restored_s"] for one in strikes if (one["how"], one["victim"]) == (how, victim)
            ]
            if took_s:
                figures = f"{np.median(took_s):.1f} s | {max(took_s):.1f} s"
                print(f"| {how} | {victim} | {len(took_s)} | {figures} |")
    print(
        f"{sum(one.ended for one in clients)} jobs ended, {sum(one.wrong for one in clients)} "
        f"with a wrong sum; {sum(one.again for one in clients)} run again as their driver was "
        f"killed; faults: {[fault for one in clients for fault in one.faults] or 'none'}"
    )


def main() -> None:
    """Strike, wait, and print what became of the jobs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--stops", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        with standalone(folder, WORKERS, CORES) as cluster:
            scene = Scene(folder, cluster, given.seed)
            try:
                until(scene.is_restored, "the first shares")
                order = ["kill"] * given.kills + ["stop"] * given.stops
                random.Random(given.seed).shuffle(order)  # noqa: S311
                strikes = []
                for how in order:
                    strikes.append(scene.strike(how))
                    write_json(given.output, {"strikes": strikes})
            finally:
                for client in scene.clients:
                    client.close()
                scene.coordinator.kill()
    show(strikes, scene.clients)


if __name__ == "__main__":
    main()
