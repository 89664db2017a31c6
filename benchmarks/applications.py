"""Several applications on one standalone cluster: coordinator, dynamic allocation, Spark's FIFO.

`python -m benchmarks.applications --runs 1 -o FILE.json` starts master, worker and drivers on
loopback. The jobs have TPC-H's graphs, and their tasks sleep. Every way of allocation gets the same
jobs at the same times; orders rotate from run to run. Beside each stands what the model of `decima
whatif --applications` gives for sleeping tasks that cost nothing; `--simulate` prints that alone.
With `--logs DIR`, event logs go to DIR/RUN-WAY: `decima whatif --applications DIR/0-dynamic/*
--executors 8` predicts the other ways from what was recorded under one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from decima.spark.jar import PLUGIN, plugin_jar
from decima.spark.replay import Replayer, at_scale, graph_text
from decima.whatif.applications.cluster import ClusterRun, Outcome
from decima.whatif.applications.ways import way_named
from decima.whatif.applications.workload import ApplicationsWorkload
from decima.whatif.replay import DriverRecord, Recording
from decima.whatif.replay.driver import Life
from tests.spark_applications import ROOT, CoordinatorProcess, free_port, standalone
from traces import Job, Trace, load_trace
from traces.loopback import LOOPBACK
from traces.spark_log import ImportSummary

SLOTS = 8
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java starts faster, with its first compiler only"""
WAYS = ("fifo", "dynamic", "strict_fair", "decima")
_MOST_TASKS = 150
_COORDINATED = ("strict_fair", "decima")
_DELAY_S = 2.0
"""where no coordinator has measured it"""
_BEFORE_MS = 30_000.0
"""applications have started and hold executors when the first job comes"""


def schedule(
    apps: int, jobs: int, work_s: float, gap_s: float, seed: int
) -> tuple[list[Job], list[int], list[float]]:
    """Return the jobs by arrival, the application of each, and its arrival in seconds."""
    rng = np.random.default_rng(seed)
    whole = load_trace("tpch")
    small = [
        job for job in whole.jobs if sum(stage.num_tasks for stage in job.stages) <= _MOST_TASKS
    ]
    picked = [small[index] for index in rng.integers(0, len(small), apps * jobs)]
    drawn = [replace(job, name=f"{place} {job.name}") for place, job in enumerate(picked)]
    mean_ms = np.mean(
        [sum(stage.num_tasks * stage.mean_ms for stage in job.stages) for job in drawn]
    )
    scaled = at_scale(Trace("drawn", tuple(drawn)), 1000 * work_s / float(mean_ms)).jobs
    arrival_s = np.cumsum(rng.exponential(gap_s, apps * jobs))
    owner = np.tile(np.arange(apps), jobs)
    return list(scaled), owner.tolist(), (arrival_s - arrival_s[0]).tolist()


def simulated(
    way: str,
    jobs: Sequence[Job],
    owner: Sequence[int],
    arrival_s: Sequence[float],
    delay_s: float,
) -> Outcome:
    """Simulate the same jobs, each application ending with its last."""
    arrival_ms = [1000 * at_s for at_s in arrival_s]
    drawn = [replace(job, arrival_ms=at_ms) for job, at_ms in zip(jobs, arrival_ms, strict=True)]
    times = {
        job.name: {"application": app, "start_ms": at_ms, "end_ms": at_ms + 1.0}
        for job, app, at_ms in zip(drawn, owner, arrival_ms, strict=True)
    }
    facts = {"slots": SLOTS, "settings": {"spark.scheduler.mode": "FAIR"}, "spark_version": None}
    apps = [{"name": f"app{app}", **facts} for app in range(max(owner) + 1)]
    lives = [
        Life(
            -_BEFORE_MS,
            max(at for at, of in zip(arrival_ms, owner, strict=True) if of == app),
            None,
        )
        for app in range(len(apps))
    ]
    recording = Recording(
        Trace("applications", tuple(drawn), {"recorded": times, "applications": apps}),
        ImportSummary(),
        tuple(DriverRecord.none(job) for job in drawn),
        lives=tuple(lives),
    )
    workload = ApplicationsWorkload.of(recording, SLOTS, 1000 * delay_s)
    return ClusterRun(workload, way_named(way, workload), 0, 0).play()


def conf_of(
    way: str, name: str, master: str, coordinator: CoordinatorProcess | None, logs: Path | None
) -> dict[str, str]:
    """Return Spark's settings of one application."""
    jar = str(plugin_jar())
    conf = {
        **LOOPBACK, "spark.master": master, "spark.app.name": name, "spark.executor.cores": "1",
        "spark.executor.memory": "512m", "spark.driver.memory": "512m", "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false", "spark.scheduler.mode": "FAIR",
        "spark.scheduler.minRegisteredResourcesRatio": "0", "spark.shuffle.service.enabled": "true",
        "spark.driver.extraClassPath": jar, "spark.executor.extraClassPath": jar,
        "spark.driver.extraJavaOptions": LIGHT, "spark.executor.extraJavaOptions": LIGHT,
    }  # fmt: skip
    if logs is not None:
        conf |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": logs.as_uri()}
    if way == "dynamic":
        conf["spark.dynamicAllocation.enabled"] = "true"
    if coordinator is not None:
        conf |= {
            "spark.cores.max": str(SLOTS), "spark.plugins": PLUGIN,
            "spark.decima.coordinator": f"127.0.0.1:{coordinator.port}",
            "spark.decima.coordinatorSecretFile": str(coordinator.secret),
        }  # fmt: skip
    return conf


def drive(conf: dict[str, str]) -> None:
    """Run one application: jobs come as a line of JSON, their times go to standard output."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for label, value in conf.items():
        builder = builder.config(label, value)
    spark = builder.getOrCreate()
    replayer = Replayer(spark, is_warmed=False)
    print("ready", flush=True)
    order = json.loads(sys.stdin.readline())
    jct_s = [0.0] * len(order["graphs"])

    def run(index: int) -> None:
        due_s = order["begin_s"] + order["arrival_s"][index]
        time.sleep(max(0.0, due_s - time.time()))
        spark.sparkContext.setLocalProperty("decima.job", f"job {index}")
        replayer.run_one(f"job {index}", order["graphs"][index])
        jct_s[index] = time.time() - due_s

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(jct_s))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(jct_s), flush=True)
    spark.stop()


def measure(
    way: str,
    jobs: Sequence[Job],
    owner: Sequence[int],
    arrival_s: Sequence[float],
    logs: Path | None,
) -> Any:
    """Return the JCT of each job in seconds, and the measured moving delay."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = f"-Dspark.shuffle.service.enabled=true -Dspark.shuffle.service.port={free_port()}"
        port = options.rpartition("=")[2]
        with standalone(folder, 1, SLOTS, SPARK_WORKER_OPTS=options) as master:
            coordinator = None
            if way in _COORDINATED:
                coordinator = CoordinatorProcess(folder, SLOTS, free_port(), "--policy", way)
            try:
                return _drivers(
                    way, jobs, owner, arrival_s, master, coordinator, port, folder, logs
                )
            finally:
                if coordinator is not None:
                    coordinator.kill()


def _drivers(
    way: str, jobs: Sequence[Job], owner: Sequence[int], arrival_s: Sequence[float], master: str,
    coordinator: CoordinatorProcess | None, port: str, folder: Path, logs: Path | None,
) -> Any:  # fmt: skip
    running = []
    for app in range(max(owner) + 1):
        conf = conf_of(way, f"app{app}", master, coordinator, logs)
        conf["spark.shuffle.service.port"] = port
        command = [sys.executable, "-m", "benchmarks.applications", "--drive", json.dumps(conf)]
        with (folder / f"app{app}.log").open("w") as log:
            running.append(
                subprocess.Popen(  # noqa: S603 - this module
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                    cwd=ROOT,
                )
            )  # fmt: skip
    for app, process in enumerate(running):
        if process.stdout is None or process.stdout.readline().strip() != "ready":
            raise RuntimeError((folder / f"app{app}.log").read_text()[-2_000:])
    begin_s = time.time() + 5.0
    jobs_of = [[k for k, of in enumerate(owner) if of == app] for app in range(len(running))]
    for rows, process in zip(jobs_of, running, strict=True):
        order = {
            "begin_s": begin_s,
            "graphs": [graph_text(jobs[k]) for k in rows],
            "arrival_s": [arrival_s[k] for k in rows],
        }
        if process.stdin is not None:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
    jct_s = [0.0] * len(jobs)
    for rows, process in zip(jobs_of, running, strict=True):
        answer = json.loads(process.stdout.readline() if process.stdout is not None else "[]")
        for k, took_s in zip(rows, answer, strict=True):
            jct_s[k] = took_s
    delay_s = (
        None if coordinator is None
        else coordinator.metric("decima_coordinator_moving_delay_seconds")
    )  # fmt: skip
    for process in running:
        process.wait(timeout=60)
    return jct_s, delay_s


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drive")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--apps", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=5, help="of each application")
    parser.add_argument("--work", type=float, default=40.0, help="mean executor-seconds of a job")
    parser.add_argument("--gap", type=float, default=6.0, help="mean seconds between arrivals")
    parser.add_argument("--simulate", type=float, metavar="S", help="moving delay; no Spark")
    parser.add_argument("--logs", type=Path, help="folder for event logs")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    if arguments.drive is not None:
        drive(json.loads(arguments.drive))
        return
    rows = []
    for run in range(arguments.runs):
        jobs, owner, arrival_s = schedule(
            arguments.apps, arguments.jobs, arguments.work, arguments.gap, run
        )
        ways = arguments.ways.split(",")
        for way in ways[run % len(ways) :] + ways[: run % len(ways)]:
            jct_s, delay_s = None, arguments.simulate
            if arguments.simulate is None:
                logs = None if arguments.logs is None else arguments.logs.resolve() / f"{run}-{way}"
                if logs is not None:
                    logs.mkdir(parents=True, exist_ok=True)
                jct_s, delay_s = measure(way, jobs, owner, arrival_s, logs)
            model = simulated(way, jobs, owner, arrival_s, delay_s or _DELAY_S)
            row = {
                "run": run,
                "way": way,
                "jct_s": jct_s,
                "moving_delay_s": delay_s,
                "simulated_s": model.jct_s.tolist(),
            }
            rows.append(row)
            real = "" if jct_s is None else f"{np.mean(jct_s):.1f} s, "
            print(run, way, f"{real}simulated {model.jct_s.mean():.1f} s", delay_s, flush=True)
            if arguments.output is not None:
                arguments.output.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
