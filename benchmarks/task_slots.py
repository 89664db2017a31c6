"""Does `decima whatif --task-cpus` and `--gpus` predict what a real Spark then does?

    python -m benchmarks.task_slots --spark .venv/spark-3.5 [--logs DIR]

Two programs of sleeping Python tasks run on `local-cluster[2,4,1024]`, each with tasks of one and
of two cores, and with executors of one and of two GPUs, which a discovery script lists. Each log
predicts the run with the other setting. `--spark` is a folder that has PySpark. A line a
prediction: slots of the cluster, makespan and average JCT as recorded there, as predicted from the
other log, and their difference. Logs that are already in DIR are not recorded again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decima.whatif import WhatIfSettings
from decima.whatif.load import recorded_reference
from decima.whatif.replay import ReplaySettings, read_recording, replay
from decima.whatif.replay.demands import Demands
from decima.whatif.task_slots import demands_effect
from traces.loopback import LOOPBACK
from traces.numbers import MS_PER_S

MASTER = "local-cluster[2,4,1024]"
JOBS = 20


class Program(NamedTuple):
    """Jobs that come at random, each in a thread of the driver."""

    mode: str
    shuffled: bool  # whether a second stage follows
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
        "spark.scheduler.mode": program.mode, "spark.locality.wait": "0s",
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.as_uri(),
        **settings_of(program, question, number, folder / ".gpus.sh"),
    }  # fmt: skip
    builder = SparkSession.builder.master(MASTER).appName(f"{name} {question} {number}")
    for key, value in conf.items():
        builder = builder.config(key, value)
    context = builder.getOrCreate().sparkContext
    context.setLogLevel("ERROR")
    context.parallelize(range(16), 16).foreach(lambda _: time.sleep(0.2))
    rng = np.random.default_rng(7)
    drawn = [
        (float(gap_s), [float(task_s) for task_s in rng.uniform(0.3, 1.2, int(tasks))])
        for gap_s, tasks in zip(rng.exponential(1.0, JOBS), rng.integers(4, 13, JOBS), strict=True)
    ]

    def submit(number: int, tasks_s: list[float]) -> None:
        context.setJobDescription(f"job {number}")
        context.setLocalProperty("spark.scheduler.pool", f"pool {number}")
        slept = context.parallelize(tasks_s, len(tasks_s)).map(_sleep)
        (slept.reduceByKey(_add, 2) if program.shuffled else slept).count()

    threads = []
    for place, (gap_s, tasks_s) in enumerate(drawn):
        time.sleep(gap_s)
        threads.append(threading.Thread(target=submit, args=(place, tasks_s)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    context.stop()


def _sleep(task_s: float) -> tuple[int, float]:
    time.sleep(task_s)
    return round(1000 * task_s) % 2, task_s


def _add(left: float, right: float) -> float:
    return left + right


def record(name: str, question: str, number: int, spark: Path, logs: Path) -> Path:
    """Return the folder with the log of a run, which is recorded if it is missing."""
    folder = logs / f"{name}-{question}-{number}"
    if not folder.is_dir() or not any(path for path in folder.iterdir() if path.name[0] != "."):
        folder.mkdir(parents=True, exist_ok=True)
        paths = f"{spark.resolve()}{os.pathsep}{Path(__file__).resolve().parents[1]}"
        subprocess.run(  # noqa: S603 - this program
            [sys.executable, "-m", "benchmarks.task_slots", "--run", name, question, str(number),
             "--logs", str(folder.resolve())],
            env={**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable,
                 "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=logs,
            check=True,
        )  # fmt: skip
    return folder


def lines(spark: Path, logs: Path) -> Iterator[str]:
    """Yield the rows of the table, each once its runs are recorded."""
    yield (
        "program, setting | slots | makespan, s: measured, predicted | | average JCT, s: measured, "
        "predicted | | replay error of the log"
    )
    for name in PROGRAMS:
        for question in QUESTIONS:
            folders = {number: record(name, question, number, spark, logs) for number in NUMBERS}
            for number, other in (NUMBERS, NUMBERS[::-1]):
                yield row(f"{name}, {question} {number} -> {other}", question, other, folders)


def row(label: str, question: str, number: int, folders: dict[int, Path]) -> str:
    """Compare a run with its prediction from the log of the other one."""
    measured = read_recording([folders[number]])
    (other,) = folders.keys() - {number}
    demands = Demands(**{**dict.fromkeys(QUESTIONS), question: number})
    recording = read_recording([folders[other]], demands=demands)
    settings = WhatIfSettings(1, (recorded_reference(recording),))
    after = demands_effect(recording, demands, settings, driver_times=True).after
    avg_s = float(measured.recorded_ms.mean()) / MS_PER_S
    makespan_s = float(measured.end_ms.max() - measured.arrival_ms.min()) / MS_PER_S
    cells = [label, f"{after.slots}"]
    for real_s, drawn_s in ((makespan_s, after.makespan_s), (avg_s, after.avg_jct_s)):
        mean_s = float(drawn_s.mean())
        cells += [f"{real_s:.1f}, {mean_s:.1f}", f"{100 * (mean_s / real_s - 1):+.1f} %"]
    error = replay(read_recording([folders[other]]), ReplaySettings()).fidelity("all")
    if error is not None:
        cells.append(f"{error.median_error_percent:.1f} %, {error.bias_percent:+.1f} %")
    return " | ".join(cells)


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
