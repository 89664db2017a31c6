"""Does the allocation that `decima whatif --price` advises cost and take what it predicts?

    python -m benchmarks.budget --spark .venv/spark-3.5 [--logs DIR]

Two programs of tasks that sleep, in the JVM, run with dynamic allocation on
`local-cluster[2,4,1024]`, executors of two cores. Then each runs with the cheapest settings of
dynamic allocation that keep the p95 of its log, under FIFO or FAIR. Printed are average JCT, p95
and the time that executors are held (from request to release) of that run, as predicted from the
log, and as predicted if executors had come as late, and the tasks of each job taken as long on
average, as in the run. `--spark` is a folder that has PySpark. Logs that are already in DIR are not
recorded again.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.task_slots import (
    MASTER,
    WARM,
    mean_task_s,
    record,
    recording_of_run,
    sleep,
    submit_at,
    with_task_times,
)
from decima.whatif import WhatIfSettings, what_if
from decima.whatif.budget import Terms, budget
from decima.whatif.load import recorded_reference
from decima.whatif.replay import Recording, ReplayWorkload
from decima.whatif.replay.check import session_cluster
from decima.whatif.replay.recording import FAIR, FIFO
from decima.whatif.spark_settings import DEFAULTS, budget_files
from spark_sim import Allocation, Streams
from traces.loopback import LOOPBACK
from traces.numbers import MS_PER_S


class Program(NamedTuple):
    """Jobs of one stage, which come at random within bursts."""

    mode: str
    bursts: int
    jobs: int
    """of a burst"""
    mean_gap_s: float
    """between the jobs of a burst"""
    pause_s: float
    """from the start of a burst to that of the next one"""
    tasks: tuple[int, int]
    """least of a job, and one more than most"""
    settings: dict[str, str]
    """of dynamic allocation"""


PROGRAMS = {
    "bursts": Program(
        "FIFO", 3, 8, 2.5, 90.0, (3, 9),
        {"minExecutors": "1", "maxExecutors": "4", "executorIdleTimeout": "60s"},
    ),
    "stream": Program(
        "FAIR", 1, 24, 8.0, 0.0, (2, 16),
        {"minExecutors": "2", "maxExecutors": "4", "executorIdleTimeout": "30s"},
    ),
}  # fmt: skip


def run(name: str, folder: Path, settings: dict[str, str]) -> None:
    """Run a program in this process; its event log goes to `folder`."""
    from pyspark.sql import SparkSession

    program = PROGRAMS[name]
    conf = {
        **LOOPBACK, "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "512m", "spark.driver.memory": "512m", "spark.executor.cores": "2",
        "spark.scheduler.mode": program.mode, "spark.network.timeout": "600s",
        "spark.worker.timeout": "600",
        # So that executors start soon, and their first tasks take about as long as the others.
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.as_uri(),
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        **{f"spark.dynamicAllocation.{name}": value for name, value in program.settings.items()},
        **settings,
    }  # fmt: skip
    builder = SparkSession.builder.master(MASTER).appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    sleep(spark, WARM, 2, 0, is_shuffled=False)
    rng = np.random.default_rng(7)
    arrival_s = np.concatenate([
        burst * program.pause_s + rng.exponential(program.mean_gap_s, program.jobs).cumsum()
        for burst in range(program.bursts)
    ])  # fmt: skip
    tasks = rng.integers(*program.tasks, len(arrival_s))
    submit_at(spark, arrival_s.tolist(), tasks.tolist(), is_shuffled=False)
    spark.stop()


def rows(name: str, spark: Path, logs: Path) -> Iterator[str]:
    """Compare the run with the advised settings, once recorded, with its prediction."""

    def recorded(label: str, settings: dict[str, str]) -> Path:
        arguments = name, json.dumps(settings)
        return record(logs / f"{name}-{label}", spark, "benchmarks.budget", *arguments)

    log = recorded("recorded", {})
    recording = recording_of_run(log)
    policy = recorded_reference(recording)
    settings = WhatIfSettings.fitting(
        recording, policies=(policy, *(order for order in (FIFO, FAIR) if order != policy))
    )
    study = what_if(recording, settings)
    planned = budget(study, Terms(price=1.0))
    options = [option for order in settings.policies if (option := planned.allocated(order))]
    best = min(options, key=lambda option: float(option.cost.mean()))
    assert best.change is not None  # noqa: S101 - of dynamic allocation
    lines = budget_files(study, best.policy, best.executors, best.change)[DEFAULTS]
    asked = dict(line.split(" ", 1) for line in lines.splitlines())
    label = re.sub(r"[^a-z0-9]+", "-", f"{best.policy} {best.cell()}")
    run_log = recorded(label, asked)
    measured = recording_of_run(run_log)

    again = recorded("again", {})

    task_s = [mean_task_s(each) for each in (recording, measured)]
    start_ms = [each.behaviours[0].start_ms or 0.0 for each in (recording, measured)]
    alike = replace(best.change.allocation, start_ms=start_ms[1])
    yield (
        f"{name}: {best.policy}, {best.cell()}; cost {planned.change(best).words('+.0f', ' %')}; "
        f"start of an executor {start_ms[0] / MS_PER_S:.1f} -> {start_ms[1] / MS_PER_S:.1f} s, "
        f"mean task {task_s[0]:.2f} -> {task_s[1]:.2f} s"
    )
    for label, before_s, again_s, real_s, *drawn_s in zip(
        ("average JCT", "p95", "executors held"),
        measures(log, recording),
        measures(again, recording_of_run(again)),
        measures(run_log, measured),
        simulated(recording, best.policy, best.change.allocation),
        simulated(with_task_times(recording, measured), best.policy, alike),
        strict=True,
    ):
        errors = [f"{each:.1f} s ({100 * (each / real_s - 1):+.1f} %)" for each in drawn_s]
        yield (
            f"  {label}: recorded {before_s:.1f} and {again_s:.1f} s, then {real_s:.1f} s; "
            f"predicted {', as in the run '.join(errors)}"
        )


def measures(folder: Path, recording: Recording) -> tuple[float, float, float]:
    """Average JCT, p95, and seconds for which executors were held, of one run."""
    jct_s = recording.recorded_ms / MS_PER_S
    return float(jct_s.mean()), float(np.percentile(jct_s, 95)), held_s(folder)


def simulated(
    recording: Recording, policy: str, allocation: Allocation, draws: int = 10
) -> tuple[float, float, float]:
    """Mean over draws of average JCT, p95, and seconds for which executors were held."""
    workload = ReplayWorkload.of(recording)
    course = workload.recorded(allocation)
    drawn = []
    for draw in range(draws):
        key = Streams(0, 0, draw).duration_key()
        state = workload.played(session_cluster(allocation.slots), policy, course, key).state
        jct_s = workload.jct_of(course, state)
        held_ms = float(state.allocation[0]["held_ms"]) / allocation.slots_each
        drawn.append((jct_s.mean(), np.percentile(jct_s, 95), held_ms / MS_PER_S))
    average_s, p95_s, held = np.mean(drawn, axis=0).tolist()
    return average_s, p95_s, held


def held_s(folder: Path) -> float:
    """Time of all executors from request to release, from first submission to last end of a job."""
    begin_ms, end_ms, spans = math.inf, 0, dict[str, list[float]]()
    (path,) = (path for path in folder.iterdir() if path.name[0] != ".")
    for line in path.read_text().splitlines():
        event = json.loads(line)
        match event["Event"]:
            case "SparkListenerExecutorAdded":
                spans[event["Executor ID"]] = [event["Executor Info"]["Request Time"], math.inf]
            case "SparkListenerExecutorRemoved":
                spans[event["Executor ID"]][1] = event["Timestamp"]
            case "SparkListenerJobStart" if event["Properties"]["spark.job.description"] != WARM:
                begin_ms = min(begin_ms, event["Submission Time"])
            case "SparkListenerJobEnd":
                end_ms = max(end_ms, event["Completion Time"])
    times_ms = (min(gone, end_ms) - max(added, begin_ms) for added, gone in spans.values())
    return sum(max(0.0, time_ms) for time_ms in times_ms) / MS_PER_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", type=Path)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        name, settings = options.run
        run(name, options.logs, json.loads(settings))
        return
    with tempfile.TemporaryDirectory() as scratch:
        logs = options.logs or Path(scratch)
        for name in PROGRAMS:
            for line in rows(name, options.spark, logs):
                print(line, flush=True)


if __name__ == "__main__":
    main()
