"""Does `decima whatif --task-cpus` and `--gpus` predict what a real Spark then does?

    python -m benchmarks.task_slots --spark .venv/spark-3.5 [--logs DIR]

Two programs of tasks that sleep, in the JVM, run on `local-cluster[2,4,1024]`, each with tasks of
one and of two cores, and with executors of one and of two GPUs, which a script lists. Each log
predicts the run with the other setting. `--spark` is a folder that has PySpark. A line a
prediction: slots of the cluster, the mean time of a task in both runs, makespan and average JCT of
the run, as predicted from the other log, and as predicted if the tasks of each job took as long on
average as in the run (what else the machine does changes that), and the replay error of the log.
Logs that are already in DIR are not recorded again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decima.whatif import WhatIfSettings
from decima.whatif.load import recorded_reference
from decima.whatif.replay import Recording, ReplaySettings, read_recording, replay
from decima.whatif.replay.demands import Demands
from decima.whatif.task_slots import demands_effect
from traces import LevelDurations
from traces.loopback import LOOPBACK
from traces.numbers import MS_PER_S

MASTER = "local-cluster[2,4,1024]"
JOBS = 12
TASKS = (3, 9)
LEAST_MS, MOST_MS = 2000, 6000
"""of a task: long, since the time to start one differs from run to run"""
MEAN_GAP_S = 2.5
WARM = "warm"
"""the job in which executors load classes"""


class Program(NamedTuple):
    """Jobs that come at random, each in a thread of the driver."""

    mode: str
    is_shuffled: bool  # whether a second stage follows
    task_gpus: str  # of a task, in the runs with GPUs


PROGRAMS = {"fifo": Program("FIFO", False, "1"), "fair": Program("FAIR", True, "0.5")}
QUESTIONS = ("task_cpus", "gpus")
NUMBERS = (1, 2)


def settings_of(program: Program, question: str, number: int, script: Path) -> dict[str, str]:
    """Return Spark's settings of one run."""
    if question == "task_cpus":
        return {"spark.task.cpus": str(number)}
    script.write_text(
        """#!/bin/sh
echo '{"name":"gpu","addresses":["0","1"]}'
"""
    )
    script.chmod(0o755)
    return {
        "spark.worker.resource.gpu.amount": "2",
        "spark.worker.resource.gpu.discoveryScript": str(script),
        "spark.executor.resource.gpu.amount": str(number),
        "spark.task.resource.gpu.amount": program.task_gpus,
    }


def run(name: str, question: str, number: int, folder: Path) -> None:
    """Run a program in this process; its event log goes to `folder`."""
    from pyspark.sql import SparkSession

    program = PROGRAMS[name]
    conf = {
        **LOOPBACK, "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "512m", "spark.driver.memory": "512m",
        "spark.scheduler.mode": program.mode, "spark.sql.shuffle.partitions": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "180s",
        "spark.network.timeout": "600s", "spark.worker.timeout": "600",
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.as_uri(),
        **settings_of(program, question, number, folder / ".gpus.sh"),
    }  # fmt: skip
    builder = SparkSession.builder.master(MASTER).appName(f"{name} {question} {number}")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    sleep(spark, WARM, 8, JOBS, is_shuffled=True)
    rng = np.random.default_rng(7)
    arrival_s = np.cumsum(rng.exponential(MEAN_GAP_S, JOBS)).tolist()
    tasks = rng.integers(*TASKS, JOBS).tolist()
    submit_at(spark, arrival_s, tasks, is_shuffled=program.is_shuffled)
    spark.stop()


def submit_at(
    spark: Any, arrival_s: Sequence[float], tasks: Sequence[int], *, is_shuffled: bool
) -> None:
    """Submit jobs of so many tasks at these times from now on, each in a thread of its own."""
    begin_s = time.monotonic()

    def submit(place: int) -> None:
        time.sleep(max(0.0, begin_s + arrival_s[place] - time.monotonic()))
        sleep(spark, f"job {place}", tasks[place], place, is_shuffled=is_shuffled)

    threads = [threading.Thread(target=submit, args=(place,)) for place in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def sleep(spark: Any, name: str, tasks: int, seed: int, *, is_shuffled: bool) -> None:
    """Run one job, each of whose first tasks sleeps for its own time."""
    spark.sparkContext.setJobDescription(name)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
    # One text for all jobs, so that executors compile it once.
    times_ms = f"CAST({LEAST_MS} + (id * 977) % {MOST_MS - LEAST_MS} AS BIGINT)"
    slept = f"java_method('java.lang.Thread', 'sleep', {times_ms}) AS slept"
    rows = spark.range(seed * 100, seed * 100 + tasks, 1, tasks)
    rows = rows.selectExpr("id % 2 AS part", slept)
    (rows.groupBy("part").agg({"slept": "max"}) if is_shuffled else rows).collect()


def record(folder: Path, spark: Path, module: str, *arguments: str) -> Path:
    """Return the folder with the log of `module`'s run, which is recorded if it is missing."""
    if not folder.is_dir() or not any(path for path in folder.iterdir() if path.name[0] != "."):
        folder.mkdir(parents=True, exist_ok=True)
        paths = f"{spark.resolve()}{os.pathsep}{Path(__file__).resolve().parents[1]}"
        subprocess.run(  # noqa: S603 - a program of this folder
            [sys.executable, "-m", module, "--run", *arguments, "--logs", str(folder.resolve())],
            env={**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable,
                 "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=folder.parent,
            check=True,
        )  # fmt: skip
    return folder


def lines(spark: Path, logs: Path) -> Iterator[str]:
    """Yield the rows of the table, each once its runs are recorded."""
    yield (
        "program, setting | slots | mean task, s: log, run | makespan, s | predicted | at the "
        "run's task times | average JCT, s | predicted | at the run's task times | replay error"
    )
    for name in PROGRAMS:
        for question in QUESTIONS:
            folders = {
                number: record(
                    logs / f"{name}-{question}-{number}",
                    spark,
                    "benchmarks.task_slots",
                    name,
                    question,
                    str(number),
                )
                for number in NUMBERS
            }
            for number, other in (NUMBERS, NUMBERS[::-1]):
                yield row(f"{name}, {question} {number} -> {other}", question, other, folders)


def row(label: str, question: str, number: int, folders: dict[int, Path]) -> str:
    """Compare a run with its prediction from the log of the other one."""
    measured = recording_of_run(folders[number])
    (other,) = folders.keys() - {number}
    demands = Demands(**{**dict.fromkeys(QUESTIONS), question: number})
    recording = recording_of_run(folders[other], demands)
    settings = WhatIfSettings(1, (recorded_reference(recording),))
    task_s = [mean_task_s(each) for each in (recording, measured)]
    predicted, alike = (
        demands_effect(each, demands, settings, driver_times=True).after
        for each in (recording, with_task_times(recording, measured))
    )
    makespan_s = float(measured.end_ms.max() - measured.arrival_ms.min()) / MS_PER_S
    avg_s = float(measured.recorded_ms.mean()) / MS_PER_S
    cells = [label, f"{predicted.slots}", f"{task_s[0]:.2f}, {task_s[1]:.2f}"]
    for real_s, *drawn_s in (
        (makespan_s, predicted.makespan_s, alike.makespan_s),
        (avg_s, predicted.avg_jct_s, alike.avg_jct_s),
    ):
        cells.append(f"{real_s:.1f}")
        cells += [
            f"{mean_s:.1f} ({100 * (mean_s / real_s - 1):+.1f} %)"
            for mean_s in (float(times_s.mean()) for times_s in drawn_s)
        ]
    error = replay(recording_of_run(folders[other]), ReplaySettings()).fidelity("all")
    if error is not None:
        cells.append(f"{error.median_error_percent:.1f} %, {error.bias_percent:+.1f} %")
    return " | ".join(cells)


def recording_of_run(folder: Path, demands: Demands | None = None) -> Recording:
    """Read a log without its first job, `WARM`: it counts as failed."""
    (path,) = (path for path in folder.iterdir() if path.name[0] != ".")
    warm_up, name, jobs = path.read_text().partition('"job 0"')
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / path.name
        copy.write_text(warm_up.replace('"JobSucceeded"', '"JobFailed"') + name + jobs)
        return read_recording([copy], demands=demands)


def with_task_times(recording: Recording, run: Recording) -> Recording:
    """Return the jobs with tasks that take as long on average, job by job, as those of a `run`.

    Both submitted the same jobs in the same order.
    """
    jobs = list(recording.trace.jobs)
    orders = (np.argsort(each.arrival_ms, kind="stable").tolist() for each in (recording, run))
    for row, other in zip(*orders, strict=True):
        job, measured = jobs[row], run.trace.jobs[other]
        factor = measured.work_ms / measured.num_tasks * job.num_tasks / job.work_ms
        stages = []
        for stage in job.stages:
            (level,) = stage.durations
            times_ms = factor * np.concatenate(level.waves)
            times = LevelDurations.of(level.executors, rest_ms=times_ms)
            stages.append(replace(stage, durations=(times,)))
        jobs[row] = replace(job, stages=tuple(stages))
    return recording.with_jobs(tuple(jobs))


def mean_task_s(recording: Recording) -> float:
    """Mean time of a recorded task."""
    jobs = recording.trace.jobs
    return sum(job.work_ms for job in jobs) / sum(job.num_tasks for job in jobs) / MS_PER_S


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", type=Path)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run is not None:
        name, question, number = options.run
        run(name, question, int(number), options.logs)
        return
    with tempfile.TemporaryDirectory() as scratch:
        for line in lines(options.spark, options.logs or Path(scratch)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
