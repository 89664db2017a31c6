"""Three programs on a real Spark, each with its jobs in turn and from threads.

    python -m benchmarks.submission --logs DIR [--spark HOME] [--only PROGRAM]

Records event logs as DIR/PROGRAM-turn and DIR/PROGRAM-threads. Then predicts from the first what
`decima whatif --submit together` does, and compares with the second. Tasks sleep. HOME is a folder
with another pyspark, which the programs then run on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from traces.loopback import LOOPBACK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

WAYS = ("turn", "threads")
_SLOTS = 8
_WARMING, _WARMING_PACE = 5, 0.02
"""runs before the one that is logged, and the share of the time that tasks sleep in them"""


class Step(NamedTuple):
    """A part of a program that runs jobs."""

    run: Callable[[], object]
    after: tuple[str, ...] = ()
    """names of the steps whose results it needs"""


class Data(NamedTuple):
    """A session, and the share of their time that tasks sleep."""

    spark: SparkSession
    pace: float

    def slept(self, rows: DataFrame, task_s: float) -> DataFrame:
        """The rows with a column that takes `task_s` each; one that is not used is left out."""
        sleep_ms = round(1000 * task_s * self.pace)
        return rows.selectExpr("*", f"reflect('java.lang.Thread', 'sleep', {sleep_ms}L) nap")

    def numbers(self, tasks: int, task_s: float) -> DataFrame:
        """`tasks` rows, each of a task of its own that takes `task_s`."""
        rows = self.spark.range(tasks, numPartitions=tasks).selectExpr("id", "id % 3 key")
        return self.slept(rows, task_s)

    def query(self, tasks: int, task_s: float) -> Step:
        """A query that reads nothing that another step wrote."""
        return Step(lambda: total(self.numbers(tasks, task_s)))


def total(rows: DataFrame) -> list[Row]:
    """Sums by key."""
    return rows.groupBy("key").agg({"nap": "max"}).collect()


def reports(data: Data, _: Path) -> dict[str, Step]:
    """Twelve queries that have nothing to do with each other."""
    sizes = ((3, 2.0), (6, 1.5), (2, 3.0), (12, 1.5), (4, 2.5), (1, 3.0), (8, 1.5), (5, 2.0),
             (2, 2.5), (3, 3.0), (10, 1.0), (6, 2.0))  # fmt: skip
    return {f"report {k}": data.query(*size) for k, size in enumerate(sizes)}


def pipeline(data: Data, folder: Path) -> dict[str, Step]:
    """Three tables are written, a fourth is joined from two of them, and two are counted."""

    def table(name: str) -> str:
        return (folder / name).as_uri()

    def write(name: str, tasks: int, task_s: float) -> Step:
        return Step(lambda: data.numbers(tasks, task_s).write.parquet(table(name)))

    def read(name: str, *, after: str, task_s: float) -> Step:
        return Step(
            lambda: total(data.slept(data.spark.read.parquet(table(name)).drop("nap"), task_s)),
            (after,),
        )

    def join() -> None:
        orders, lines = (
            data.spark.read.parquet(table(name)).drop("nap") for name in ("orders", "lines")
        )
        joined = data.slept(orders.join(lines.drop("key"), "id"), 5.0)
        joined.write.parquet(table("joined"))

    return {
        "write orders": write("orders", 2, 6.0),
        "write lines": write("lines", 2, 7.0),
        "write users": write("users", 1, 4.0),
        "query 0": data.query(1, 5.0),
        "join": Step(join, ("write orders", "write lines")),
        "count users": read("users", after="write users", task_s=4.0),
        "query 1": data.query(1, 6.0),
        "count joined": read("joined", after="join", task_s=5.0),
        "query 2": data.query(1, 4.0),
    }


def features(data: Data, _: Path) -> dict[str, Step]:
    """A table is cached and then read by four queries; others beside, and work of the driver."""
    base = data.numbers(4, 5.0).cache()

    def drawn(run: Callable[[], object]) -> Callable[[], None]:
        def then_draw() -> None:
            run()
            time.sleep(0.5)  # as if the result were drawn

        return then_draw

    def feature(number: int) -> Step:
        rows = base.where(f"id <> {number}").drop("nap")
        return Step(drawn(lambda: total(data.slept(rows, 3.0 + 0.5 * number))), ("base",))

    def model(tasks: int, task_s: float) -> Step:
        return Step(drawn(data.query(tasks, task_s).run))

    return {
        "base": Step(base.count),
        **{f"feature {k}": feature(k) for k in range(4)},
        "model 0": model(1, 6.0),
        "model 1": model(1, 7.0),
        "model 2": model(2, 5.0),
    }


PROGRAMS = {"reports": reports, "pipeline": pipeline, "features": features}
MODES = {"features": "FAIR"}
"""scheduling mode of the programs that set one"""


def in_turn(steps: dict[str, Step]) -> None:
    """Run the steps one after the other."""
    for step in steps.values():
        step.run()


def from_threads(steps: dict[str, Step]) -> None:
    """Run each step in a thread as soon as those that it needs have ended."""
    with ThreadPoolExecutor(len(steps)) as threads:
        futures: dict[str, Future[object]] = {}

        def run(step: Step) -> None:
            for name in step.after:
                futures[name].result()
            step.run()

        for name, step in steps.items():
            futures[name] = threads.submit(run, step)
        for future in futures.values():
            future.result()


def play(program: str, way: str, log: Path) -> None:
    """Run a program and log it; in the process that has Spark."""
    from pyspark.sql import SparkSession

    settings = {
        **LOOPBACK,
        "spark.master": f"local[{_SLOTS}]",
        "spark.app.name": f"{program}-{way}",
        "spark.scheduler.mode": MODES.get(program, "FIFO"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": log.as_uri(),
    }
    # Sessions before it, which are not logged, have Java load its classes and compile.
    for pace in (*(_WARMING_PACE,) * _WARMING, 1.0):
        is_logged = pace == 1.0
        builder = SparkSession.builder
        for key, value in {**settings, "spark.eventLog.enabled": str(is_logged).lower()}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        with tempfile.TemporaryDirectory() as folder:
            steps = PROGRAMS[program](Data(spark, pace), Path(folder))
            {"turn": in_turn, "threads": from_threads}[way if is_logged else "threads"](steps)
        spark.stop()


def record(programs: Sequence[str], logs: Path, home: Path | None) -> None:
    """Record each program in both ways, each in a process of its own."""
    environment = dict(os.environ)
    if home is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(home), os.getcwd()])
    for program in programs:
        for way in WAYS:
            log = (logs / f"{program}-{way}").resolve()
            log.mkdir(parents=True)
            command = [sys.executable, "-m", "benchmarks.submission", "--play", program, way]
            subprocess.run([*command, "--logs", str(log)], env=environment, check=True)  # noqa: S603


def compare(programs: Sequence[str], logs: Path) -> None:
    """Print what the logs in turn predict for threads, beside the logs of threads."""
    from decima.rl.statistics import mean_of
    from decima.whatif import WhatIfSettings, load, what_if
    from decima.whatif.replay import ReplaySettings, read_recording, replay
    from decima.whatif.submission import TOGETHER, submission
    from decima.whatif.text import figure

    print("| program | jobs, of which wait | in turn | predicted | threads | error ", end="")
    print("| predicted average JCT | threads | error |")
    for program in programs:
        turn, threads = (read_recording([logs / f"{program}-{way}"]) for way in WAYS)
        policy = load.recorded_reference(turn)
        settings = WhatIfSettings(load.recorded_slots(turn), (policy,), draws=20, sequences=1)
        check = replay(turn, ReplaySettings(draws=5))
        answer = submission(what_if(turn, settings), check, TOGETHER)
        outcome = answer.changed[policy]
        span_s, jct_s = load.span_s(threads), load.recorded_avg_s(threads)
        print(
            f"| {program}, {policy} | {len(turn.trace.jobs)}, "
            f"{len({each.job for each in turn.dependencies})} | {load.span_s(turn):.1f} s "
            f"| {figure(mean_of(outcome.span_s))} | {span_s:.1f} s "
            f"| {100 * (outcome.span_s.mean() / span_s - 1):+.0f} % "
            f"| {figure(mean_of(outcome.avg_s))} | {jct_s:.1f} s "
            f"| {100 * (outcome.avg_s.mean() / jct_s - 1):+.0f} % |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--spark", type=Path)
    parser.add_argument("--only", choices=sorted(PROGRAMS))
    parser.add_argument("--play", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play is not None:
        program, way = arguments.play
        play(program, way, arguments.logs)
        return
    programs = list(PROGRAMS) if arguments.only is None else [arguments.only]
    record(programs, arguments.logs, arguments.spark)
    compare(programs, arguments.logs)


if __name__ == "__main__":
    main()
