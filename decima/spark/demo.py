"""`run_demo`: real TPC-H queries and replayed jobs side by side, under several schedulers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decima.spark.attaching import attach
from decima.spark.loading import LOADING_S
from decima.spark.replay import Replayer, at_scale, graph_text, submit_all
from decima.spark.trial import PLAIN, local_session
from traces import Job, load_trace
from traces.numbers import Float64
from traces.tpch.tables import MANY_TASKS, find_generator, generate_tables, query_text

QUERIES = (1, 3, 4, 5, 6, 10, 12, 14, 19)
SCALE_FACTOR = 0.05


@dataclass(frozen=True)
class DemoConfig:
    """Jobs of the demonstration: every second one is a query, the others are replayed."""

    policies: tuple[str, ...] = ("spark-fifo", "spark-fair", "strict_fair", "decima")
    jobs: int = 16
    slots: int = 16
    interarrival_s: float = 0.7
    time_scale: float = 0.03
    seed: int = 0


@dataclass(frozen=True)
class DemoOutcome:
    """One policy's run."""

    policy: str
    jct_s: Float64
    """(K,)"""
    is_query: NDArray[np.bool_]
    """(K,) a TPC-H query; else a replayed job"""


def run_demo(
    config: DemoConfig, progress: Callable[[str], None] = lambda _: None
) -> list[DemoOutcome]:
    """Run all policies on the same jobs, each in a Spark of its own.

    Raises:
        AttachError: no pyspark, no Java, or a job failed.
        TraceError: the generator of the tables is not installed.
    """
    rng = np.random.default_rng(config.seed)
    trace = at_scale(load_trace("tpch"), config.time_scale)
    arrival_s = np.cumsum(rng.exponential(config.interarrival_s, config.jobs))
    jobs = list(trace.jobs)
    work: list[int | Job] = [
        int(rng.choice(QUERIES)) if number % 2 == 0 else jobs[rng.integers(len(jobs))]
        for number in range(config.jobs)
    ]
    found = []
    with tempfile.TemporaryDirectory(prefix="decima-demo-") as folder:
        progress(f"writing the TPC-H tables at scale factor {SCALE_FACTOR:g}")
        generate_tables(find_generator(), SCALE_FACTOR, Path(folder), MANY_TASKS)
        for policy in config.policies:
            progress(f"running {policy}")
            found.append(_run(policy, config, Path(folder), work, arrival_s))
    return found


def _run(
    policy: str, config: DemoConfig, tables: Path, work: Sequence[int | Job], arrival_s: Float64
) -> DemoOutcome:
    spark = local_session(config.slots, fair=policy == "spark-fair")
    try:
        for table in sorted(tables.iterdir()):
            spark.read.parquet(str(table)).createOrReplaceTempView(table.name)
        run = _runner(spark, work)
        names = [
            f"q{item} #{number}" if isinstance(item, int) else f"{item.name} #{number}"
            for number, item in enumerate(work)
        ]
        run(0)  # to warm up
        if policy in PLAIN:
            jct_s = submit_all(spark.sparkContext, names, arrival_s, run)
        else:
            with attach(spark, policy, ready_s=LOADING_S):
                jct_s = submit_all(spark.sparkContext, names, arrival_s, run)
    finally:
        spark.stop()
    return DemoOutcome(policy, jct_s, np.array([isinstance(item, int) for item in work]))


def _runner(spark: Any, work: Sequence[int | Job]) -> Callable[[int], None]:
    replayer = Replayer(spark)

    def run(number: int) -> None:
        item = work[number]
        if isinstance(item, int):
            spark.sql(query_text(item, SCALE_FACTOR)).collect()
        else:
            replayer.run_one(item.name, graph_text(item))

    return run
