"""Three programs on a real Spark: recorded, replayed, changed as `whatif` advises, run again.

    python -m benchmarks.live_advice [--only pools] [--keep FOLDER]

Their tasks sleep. `pools`: an application on four slots whose short and long jobs come in two FAIR
pools. `dynamic`: a standalone cluster with dynamic allocation, whose executors come and go.
`sequential`: a driver that runs one job after the other, beside another thread's jobs. Each runs as
it is, then with the advice (that on pools or on allocation, if there is any for certain), then as
it is again.
Prints how far the replay is off, what was advised and promised, and what came of it: the average
job completion time against the mean of the runs without the change. Needs pyspark, Java and six
minutes; other work on the machine shows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.replay_fidelity import SETTINGS, SleepStages
from decima.rl.statistics import difference_percent
from decima.whatif import WhatIf, WhatIfSettings, what_if
from decima.whatif.load import recorded_slots, varying_slots
from decima.whatif.replay import ReplaySettings, read_recording, replay
from decima.whatif.replay.allocation import PREFIX
from decima.whatif.replay.pools import allocation_file
from decima.whatif.replay.recording import FIFO, ORDERS
from tests.record_spark_logs import cluster
from traces import write_trace
from traces.spark_log import read_spark_logs

SEED, SLOTS = 11, 4
FILE = "fairscheduler.xml"


class Job(NamedTuple):
    """One job of a program."""

    at_s: float
    """submission; of a job that follows another, the pause after that one's end"""
    tasks: int
    task_s: float
    pool: str
    follows: bool = False
    """submitted by the thread that ran the job before it"""


class Program(NamedTuple):
    """An application."""

    master: str
    settings: dict[str, str]
    jobs: list[Job]


def programs() -> dict[str, Program]:
    """The three programs."""
    rng = np.random.default_rng(SEED)
    web = [Job(at, 6, 0.3, "web") for at in rng.uniform(0, 42, 22)]
    etl = [Job(at, 24, 0.5, "etl") for at in rng.uniform(0, 38, 8)]
    bursts = [Job(at, 8, 0.4, "") for at in [*rng.uniform(0, 12, 10), *rng.uniform(64, 76, 10)]]
    long = [Job(at, 32, 0.5, "") for at in (1.0, 66.0)]
    driver = [Job(0.2, 4, 0.4, "", follows=number > 0) for number in range(16)]
    beside = [Job(at, 30, 0.4, "") for at in rng.uniform(0, 30, 8)]
    allocation = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": str(SLOTS),
        "spark.dynamicAllocation.executorIdleTimeout": "4s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "4s",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.cores.max": str(SLOTS),
    }
    local = f"local[{SLOTS}]"
    return {
        "pools": Program(local, {"spark.scheduler.mode": "FAIR"}, [*web, *etl]),
        "dynamic": Program("two hosts", allocation, [*bursts, *long]),
        "sequential": Program(local, {}, [*driver, *beside]),
    }


# --- in the application --------------------------------------------------------------------------


def run_application(program: Program, master: str, folder: Path, change: dict[str, Any]) -> None:
    """Run a program in this process, its event log going to `folder`."""
    from pyspark.sql import SparkSession

    import decima.spark

    builder = SparkSession.builder.appName("advice").master(master)
    for key, value in {**SETTINGS, **program.settings, **change.get("settings", {})}.items():
        builder = builder.config(key, value)
    spark = builder.config("spark.eventLog.dir", folder.as_uri()).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with ExitStack() as stack:
        if "policy" in change:
            known = {"parameters": change["parameters"] or None, "priors": change["priors"]}
            scheduler = decima.spark.attach(spark, change["policy"], ready_s=120, **known)
            stack.enter_context(scheduler)
        submit_all(spark, program.jobs)
    spark.stop()


def submit_all(spark: Any, jobs: list[Job]) -> None:
    """Submit the jobs from threads, those that follow each other from one."""
    began = time.monotonic()
    lanes: list[list[tuple[int, Job]]] = []
    for number, job in enumerate(jobs):
        if job.follows:
            lanes[-1].append((number, job))
        else:
            lanes.append([(number, job)])

    def run(lane: list[tuple[int, Job]]) -> None:
        for number, job in lane:
            time.sleep(job.at_s if job.follows else max(0.0, began + job.at_s - time.monotonic()))
            spark.sparkContext.setJobDescription(f"job {number:02}")
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", job.pool or None)
            SleepStages(((job.task_s,) * job.tasks, (job.task_s,) * 2)).run(spark)

    threads = [threading.Thread(target=run, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- around it -----------------------------------------------------------------------------------


def run(name: str, folder: Path, change: dict[str, Any]) -> Path:
    """Run a program in a process of its own; the folder of its log."""
    if not folder.exists():
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "benchmarks.live_advice", "--run", name]
        asked = [*command, "--into", str(folder.resolve()), "--change", json.dumps(change)]
        subprocess.run(asked, check=True, stderr=subprocess.DEVNULL)  # noqa: S603 - this program
    return folder


def advised(found: WhatIf, log: Path, folder: Path) -> tuple[str, dict[str, Any], str]:
    """Return the advice, as words and as a change, and the promised difference of the average."""
    reference = found.main.policies[found.settings.reference]
    if (pool := found.best_pool_change()) is not None:
        change, result = pool
        path = folder / FILE
        path.write_text(allocation_file(change.applied(found.recording.pools(0))))
        settings = {"spark.scheduler.allocation.file": path.resolve().as_uri()}
        promised = found.differences(result)[0]
        return change.words(), {"settings": settings}, promised.words("+.0f", " %")
    if (faster := found.fastest_allocation()) is not None:
        allocation, result = faster
        parts = (part.split("=") for part in allocation.setting.split(", "))
        asked = {f"{PREFIX}{name}": value for name, value in parts}
        promised = found.differences(result, found.allocations[0][1])[0]
        return allocation.setting, {"settings": asked}, promised.words("+.0f", " %")
    best = found.best()
    if best is None:
        return "nothing", {}, ""
    promised = difference_percent(found.main.policies[best].avg_s, reference.avg_s)
    if best in ORDERS:
        mode = {"spark.scheduler.mode": "FIFO" if best == FIFO else "FAIR"}
        return best, {"settings": mode}, promised.words("+.0f", " %")
    priors = folder / "priors.parquet"
    write_trace(read_spark_logs([log])[0], priors)
    attached = {
        "policy": best,
        "parameters": dict(found.main.tuned.get(best, {})),
        "priors": str(priors.resolve()),
    }
    return f"attach {best}", attached, promised.words("+.0f", " %")


def average_s(folder: Path) -> float:
    """Average JCT in a log."""
    recording = read_recording([folder])
    return float((recording.end_ms - recording.arrival_ms).mean()) / 1000.0


def tried(name: str, folder: Path) -> Iterator[str]:
    """Lines about one program."""
    log = run(name, folder / "first", {})
    recording = read_recording([log])
    check = replay(recording, ReplaySettings())
    fidelity = check.fidelity("all")
    assert fidelity is not None  # noqa: S101 - there are jobs
    usual = WhatIfSettings(1).policies
    settings = WhatIfSettings(
        recorded_slots(recording),
        (check.policies[0], *(name for name in usual if name != check.policies[0])),
        slots_vary=varying_slots(recording) is not None,
    )
    words, change, promised = advised(what_if(recording, settings), log, folder)
    yield (
        f"{name}: {len(recording.trace.jobs)} jobs, {average_s(log):.2f} s on average; replay "
        f"{fidelity.median_error_percent:.1f} % off, bias {fidelity.bias_percent:+.1f} %"
    )
    if not change:
        yield f"{name}: advised no change"
        return
    changed_s = average_s(run(name, folder / "changed", change))
    base_s = [average_s(log), average_s(run(name, folder / "again", {}))]
    yield (
        f"{name}: advised {words}, promised {promised}; measured "
        f"{100 * (changed_s / np.mean(base_s) - 1):+.0f} % ({changed_s:.2f} s; as it was "
        f"{base_s[0]:.2f} and {base_s[1]:.2f} s)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", action="append", choices=list(programs()))
    parser.add_argument("--keep", type=Path, help="leave the logs here; those here are not redone")
    parser.add_argument("--run", choices=list(programs()), help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--change", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        program = programs()[options.run]
        with cluster(program.master, options.into) as master:
            run_application(program, master, options.into, options.change)
        return
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.only or programs():
            for line in tried(name, (options.keep or Path(scratch)) / name):
                print(line, flush=True)


if __name__ == "__main__":
    main()
