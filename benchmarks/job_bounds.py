"""Caps of pools and bounds on jobs: what `decima whatif` predicts, and what a real Spark does.

    python -m benchmarks.job_bounds FOLDER [--only pool-fifo,jobs-fair]

Programs on `local[8]`, whose tasks sleep. Each runs without a cap, `whatif` predicts
from its event log what the cap would change, and the program runs again under it: the same jobs at
the same times. `order-*` run under a policy then, which knows the durations from the first run.
Event logs stay in FOLDER, and a run whose log is there is not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decima.spark import attach
from decima.spark.jar import PLUGIN, build_jar
from decima.spark.replay import Replayer
from decima.whatif import WhatIfSettings, what_if
from decima.whatif.bounds import bounds_settings, bounds_words
from decima.whatif.load import recorded_reference, recorded_slots
from decima.whatif.replay import Recording, ReplaySettings, read_recording, replay
from traces import write_trace
from traces.loopback import LOOPBACK
from traces.numbers import MS_PER_S, Bool, Float64

SLOTS = 8
DRAWS = 20
PLAIN, LIVE = "without", "under"
POOL = "spark.scheduler.pool"


class Program(NamedTuple):
    """Jobs, and the bound on them."""

    conf: dict[str, str]
    seed: int
    max_slots: dict[str, int] | None = None
    max_jobs: int | None = None
    policy: str | None = None  # under the bound; None: Spark's own order

    def bounds(self) -> dict[str, int]:
        """The bound, by the plugin's names."""
        return bounds_settings(self.max_slots, self.max_jobs)


FAIR = {"spark.scheduler.mode": "FAIR"}
PROGRAMS = {
    "pool-fifo": Program({}, 1, {"adhoc": 5}),
    "pool-fair": Program(FAIR, 2, {"adhoc": 4}),
    "jobs-fifo": Program({}, 3, max_jobs=2),
    "jobs-fair": Program(FAIR, 4, max_jobs=2),
    "order-srw": Program({}, 3, max_jobs=2, policy="tuned_srw"),
    "order-es": Program(FAIR, 4, max_jobs=2, policy="es_rule"),
}


class Work(NamedTuple):
    """A job of two stages."""

    pool: str
    arrival_s: float
    graph: str  # as `Replay.build` takes it


def work_of(program: Program) -> list[Work]:
    """The jobs of a program: short and long ones of two pools, or of a pool each."""
    rng = np.random.default_rng(program.seed)
    if program.max_slots is not None:
        kinds = [("dash", 4, 8, 0.5, 1.0)] * 24 + [("adhoc", 18, 30, 1.5, 2.5)] * 8
        gap_s = 3.2
    else:
        kinds = [("short", 2, 5, 1.0, 2.0)] * 24 + [("long", 6, 14, 1.5, 3.0)] * 16
        gap_s = 2.5
    times_s = np.cumsum(rng.exponential(gap_s, len(kinds)))
    jobs = []
    for number, row in enumerate(rng.permutation(len(kinds)).tolist()):
        pool, fewest, most, least_s, longest_s = kinds[row]
        counts = int(rng.integers(fewest, most + 1)), int(rng.integers(1, 5))
        naps_ms = (rng.uniform(1000 * least_s, 1000 * longest_s, count) for count in counts)
        first, second = (",".join(f"{nap_ms:.0f}" for nap_ms in stage) for stage in naps_ms)
        name = pool if program.max_slots is not None else f"{pool}{number}"
        jobs.append(Work(name, float(times_s[number]), f":{first};0:{second}"))
    return jobs


def run_session(name: str, conf: dict[str, str], attached: dict[str, Any] | None) -> None:
    """Run a program in this process, with these arguments of `attach`, if there are any."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    context, replayer = spark.sparkContext, Replayer(spark)

    def run(work: Work) -> None:
        context.setLocalProperty(POOL, work.pool)
        context.setJobDescription(work.pool)  # by which a policy knows the first run
        replayer.run_one(work.pool, work.graph)

    with nullcontext() if attached is None else attach(spark, **attached) as scheduler:
        begin_s = time.monotonic() + 1.0
        threads = []
        for work in work_of(PROGRAMS[name]):
            time.sleep(max(0.0, begin_s + work.arrival_s - time.monotonic()))
            threads.append(threading.Thread(target=run, args=(work,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        if scheduler is not None:
            print(scheduler.status())
    context.stop()


def recorded(
    folder: Path, name: str, way: str, jar: Path, attached: dict[str, Any] | None = None
) -> Recording:
    """The recording of a program, which is run unless its log is there."""
    program, logs = PROGRAMS[name], folder / f"{name}-{way}"
    if not logs.exists():
        logs.mkdir(parents=True)
        conf = {
            **LOOPBACK,
            "spark.master": f"local[{SLOTS}]",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": logs.as_uri(),
            **program.conf,
        }
        if way == LIVE and attached is None:
            conf |= {"spark.driver.extraClassPath": str(jar), "spark.plugins": PLUGIN}
            settings = {"policy": "spark", **program.bounds()}
            conf |= {f"spark.decima.{key}": str(value) for key, value in settings.items()}
        command = [
            sys.executable,
            "-m",
            "benchmarks.job_bounds",
            name,
            "--session",
            json.dumps([conf, attached]),
        ]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        subprocess.run(command, env=environment, check=True)  # noqa: S603 - this module
    return read_recording([logs])


def of_bound(recording: Recording, program: Program) -> Bool:
    """(J,) the jobs that the bound is about: those of the pool, or the long ones."""
    capped = next(iter(program.max_slots)) if program.max_slots is not None else "long"
    pools = [record.pool or "" for record in recording.driver]
    return np.array([pool.startswith(capped) for pool in pools])


def averages(jct_s: Float64, rows: Bool, warm: Bool) -> list[float]:
    """Average of all jobs, of those in `rows`, and of the others; the warm-up is none."""
    return [float(jct_s[part].mean()) for part in (~warm, rows, ~rows & ~warm)]


def compare(folder: Path, name: str, jar: Path) -> None:
    """Print a program's rows: predicted and measured averages."""
    program = PROGRAMS[name]
    before = recorded(folder, name, PLAIN, jar)
    check = replay(before, ReplaySettings(draws=5)).fidelity("all")
    settings = WhatIfSettings(
        recorded_slots(before),
        (program.policy or recorded_reference(before),),
        draws=DRAWS,
        sequences=1,
        max_slots=program.max_slots,
        max_jobs=program.max_jobs,
    )
    study = what_if(before, settings)
    attached = None
    if program.policy is not None:
        priors = folder / f"{name}.parquet"
        write_trace(before.trace, priors)
        attached = {
            "policy": program.policy,
            "parameters": study.main.tuned.get(program.policy),
            "priors": str(priors),
            "caps": program.bounds(),
        }
    after = recorded(folder, name, LIVE, jar, attached)
    assert study.bounded is not None  # noqa: S101 - the settings have a bound
    assert check is not None  # noqa: S101 - there are jobs
    words = bounds_words(program.max_slots, program.max_jobs)
    print(f"{name}: {words}, {study.settings.reference} {study.main.tuned}, ", end="")
    print(f"replay {check.median_error_percent:.1f} %, {check.bias_percent:+.1f} %")
    columns = []
    for jct_s, recording in (
        (before.recorded_ms / MS_PER_S, before),
        (study.reference.by_job_s, before),
        (study.bounded.by_job_s, before),
        (after.recorded_ms / MS_PER_S, after),
    ):
        warm = np.array([record.pool is None for record in recording.driver])
        columns.append(averages(jct_s, of_bound(recording, program), warm))
    for label, row in zip(("all", "bounded", "others"), zip(*columns, strict=True), strict=True):
        recorded_s, unbounded_s, predicted_s, measured_s = row
        print(
            f"  {label:8} recorded {recorded_s:6.2f} s, unbounded {unbounded_s:6.2f} s, predicted "
            f"{predicted_s:6.2f} s, measured {measured_s:6.2f} s: "
            f"{100 * (predicted_s / measured_s - 1):+.1f} %"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="of the event logs")
    parser.add_argument("--only", default=",".join(PROGRAMS), help="programs, by name")
    parser.add_argument("--session", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.session is not None:
        run_session(given.folder, *json.loads(given.session))
        return
    folder = Path(given.folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    jar = folder / "decima-spark.jar"
    if not jar.exists():
        build_jar(jar)
    for name in given.only.split(","):
        compare(folder, name, jar)


if __name__ == "__main__":
    main()
