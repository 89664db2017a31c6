"""The same jobs under several schedulers of a local Spark, in turn.

A trial replays jobs of a trace. The demonstration mixes them with real TPC-H queries.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decima.policy_names import SHIPPED_MODEL, is_learned
from decima.registry import HEURISTICS, Heuristic, Parameters
from decima.spark.attaching import attach
from decima.spark.jvm import first_line
from decima.spark.loading import LOADING_S
from decima.spark.replay import (
    Replayer,
    at_scale,
    graph_text,
    simulated_in_pools_s,
    simulated_s,
    submit_all,
    with_overhead,
)
from decima.spark.settings import AttachError, missing
from decima.spark.status import SchedulerStatus
from decima.whatif.replay.pools import DEFAULT_POOL, Pools, allocation_file
from traces import Job, Trace, load_trace
from traces.files.names import counted, suggestion
from traces.loopback import LOOPBACK
from traces.numbers import Float64
from traces.spark_log import read_spark_logs
from traces.tpch.tables import MANY_TASKS, find_generator, generate_tables, query_text

IN_POOLS = "spark-pools"
PLAIN = ("spark-fifo", "spark-fair", IN_POOLS)
"""Spark's own schedulers, with nothing attached"""
ALLOCATION_FILE = "spark.scheduler.allocation.file"
_SIMULATED_AS = {"spark-fifo": "fifo", "spark-fair": "spark_fair"}
_MOST = 100_000
"""jobs and slots of a trial"""
QUERIES = (1, 3, 4, 5, 6, 10, 12, 14, 19)
SCALE_FACTOR = 0.05
"""of the demonstration's tables"""


@dataclass(frozen=True)
class TrialConfig:
    """Settings of a trial: the jobs to replay, and where."""

    policies: tuple[str, ...]
    jobs: int = 20
    slots: int = 16
    interarrival_s: float = 1.0
    """mean gap in real seconds"""
    time_scale: float = 0.1
    seed: int = 0
    parameters: Mapping[str, Parameters] = field(default_factory=dict)
    """by policy, in place of those that the package ships"""
    pools: Pools | None = None
    """settings of the pools of `IN_POOLS`; None: Spark's defaults"""

    def __post_init__(self) -> None:
        for name, values in self.parameters.items():
            Heuristic(name, values)
        for name in self.policies:
            if name not in PLAIN and name not in HEURISTICS and not is_learned(name):
                policies = (*PLAIN, *HEURISTICS, SHIPPED_MODEL)
                raise AttachError(
                    f"unknown policy {name!r}{suggestion(name, policies)}; there are "
                    f"{', '.join(policies)}"
                )
        if not self.policies:
            raise AttachError("policies: name at least one")
        for label in ("jobs", "slots"):
            if not 1 <= getattr(self, label) <= _MOST:
                raise AttachError(f"{label} must lie in 1..{_MOST:,}, got {getattr(self, label)}")
        for label in ("interarrival_s", "time_scale"):
            if not 0 < getattr(self, label) < float("inf"):
                raise AttachError(f"{label} must be positive, got {getattr(self, label)}")


@dataclass(frozen=True)
class TrialOutcome:
    """One policy's run of the jobs."""

    policy: str
    jct_s: Float64
    """(K,) on Spark"""
    simulated_s: Float64
    """(K,) in the simulator, whose tasks take `overhead_ms` more than they sleep"""
    overhead_ms: float
    """what Spark adds to a task, measured before the jobs came"""
    status: SchedulerStatus | None
    """of the attached scheduler; None where Spark's own ran"""

    @property
    def error(self) -> float:
        """Median over jobs of |Spark / simulator - 1|."""
        return float(np.median(np.abs(self.jct_s / self.simulated_s - 1)))

    @property
    def bias(self) -> float:
        """Mean JCT on Spark over that in the simulator, minus 1."""
        return float(self.jct_s.mean() / self.simulated_s.mean() - 1)


def words(trace: str, config: TrialConfig, outcomes: Sequence[TrialOutcome]) -> str:
    added_ms = float(np.median([outcome.overhead_ms for outcome in outcomes]))
    return (
        f"{counted(config.jobs, 'job')} of {trace} on {counted(config.slots, 'slot')} of a local "
        "Spark, mean gap "
        f"{config.interarrival_s:g} s, tasks at {config.time_scale:g} of their time. Spark adds "
        f"{added_ms:.0f} ms to each, which the simulator includes."
    )


def draw_jobs(trace: Trace, config: TrialConfig) -> tuple[list[Job], Float64]:
    """The jobs and when each arrives, in real seconds; the first at once."""
    rng = np.random.default_rng(config.seed)
    scaled = at_scale(trace, config.time_scale)
    rows = rng.integers(len(scaled.jobs), size=config.jobs)
    gaps_s = rng.exponential(config.interarrival_s, config.jobs)
    gaps_s[0] = 0.0
    arrival_s: Float64 = np.cumsum(gaps_s)
    return [scaled.jobs[row] for row in rows], arrival_s


def run_trial(
    trace: Trace, config: TrialConfig, progress: Callable[[str], None] = lambda _: None
) -> list[TrialOutcome]:
    """Run all policies on jobs of the trace, with the durations of an earlier run of each.

    AttachError: no pyspark, no Java, or a job failed.
    """
    jobs, arrival_s = draw_jobs(trace, config)
    recorded = pools_of(trace, jobs) if IN_POOLS in config.policies else None
    priors = None
    if not set(config.policies) <= set(PLAIN):
        progress("each job once, for an event log to know durations from")
        priors = record(jobs, config.slots)
    outcomes = []
    for policy in config.policies:
        progress(policy)
        pools = recorded if policy == IN_POOLS else None
        spark = local_session(
            config.slots,
            fair=policy in ("spark-fair", IN_POOLS),
            pools=None if pools is None else config.pools,
        )
        try:
            replayer = Replayer(spark)
            overhead_ms = replayer.overhead_ms(config.slots)
            run = partial(replayer.run, jobs, arrival_s, pools)
            parameters = config.parameters.get(policy)
            jct_s, status = _under(policy, spark, run, parameters=parameters, priors=priors)
        finally:
            spark.stop()
        longer = [with_overhead(job, overhead_ms) for job in jobs]
        if pools is None:
            name = _SIMULATED_AS.get(policy, policy)
            simulated = simulated_s(longer, arrival_s, config.slots, name, parameters)
        else:
            simulated = simulated_in_pools_s(longer, arrival_s, config.slots, pools, config.pools)
        outcomes.append(TrialOutcome(policy, jct_s, simulated, overhead_ms, status))
    return outcomes


def _under(
    policy: str, spark: Any, run: Callable[[], Float64], **options: Any
) -> tuple[Float64, SchedulerStatus | None]:
    if policy in PLAIN:
        return run(), None
    with attach(spark, policy, ready_s=LOADING_S, **options) as scheduler:
        return run(), scheduler.status()


def pools_of(trace: Trace, jobs: Sequence[Job]) -> list[str]:
    """The pool that each job was recorded in; AttachError if the trace names none."""
    recorded = trace.metadata.get("recorded", {})
    pools = [recorded.get(job.name, {}).get("pool") for job in jobs]
    if not any(pools):
        raise AttachError(
            f"policy {IN_POOLS!r} needs jobs with pools, which {trace.name!r} lacks: import a log "
            "of spark.scheduler.mode=FAIR (decima traces import spark)"
        )
    return [DEFAULT_POOL if name is None else name for name in pools]


def record(jobs: Sequence[Job], slots: int) -> Trace:
    """The trace that an application's own event log makes of each distinct job, all at a time."""
    distinct = list({job.name: job for job in jobs}.values())
    with tempfile.TemporaryDirectory(prefix="decima-record-") as folder:
        spark = local_session(slots, fair=False, event_log=Path(folder))
        try:
            Replayer(spark).run(distinct, np.zeros(len(distinct)))
        finally:
            spark.stop()
        return read_spark_logs([Path(folder)], name="an earlier run")[0]


def local_session(
    slots: int, *, fair: bool, event_log: Path | None = None, pools: Pools | None = None
) -> Any:
    """A quiet local Spark, not to be reached from other machines; AttachError if none starts.

    `event_log` is a folder; `pools` have their settings, None: Spark's defaults.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException, PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise missing("pyspark") from error
    settings = {
        **LOOPBACK,
        "spark.scheduler.mode": "FAIR" if fair else "FIFO",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",  # in force before what can fail
        # The JVM keeps the settings of a process's first session, so "no log" is set as well.
        "spark.eventLog.enabled": "false" if event_log is None else "true",
    }
    if event_log is not None:
        settings["spark.eventLog.dir"] = event_log.absolute().as_uri()
    builder = SparkSession.builder.master(f"local[{slots}]").appName("decima replay")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        if pools is None:
            return builder.getOrCreate()
        with tempfile.TemporaryDirectory(prefix="decima-pools-") as folder:
            path = Path(folder) / "fairscheduler.xml"
            path.write_text(allocation_file(pools))
            return builder.config(ALLOCATION_FILE, path.as_uri()).getOrCreate()
    except PySparkRuntimeError as error:
        raise AttachError(f"Spark does not start (is Java there?): {first_line(error)}") from error
    except (Py4JError, PySparkException, OSError) as error:
        raise AttachError(f"Spark does not start: {first_line(error)}") from error


@dataclass(frozen=True)
class DemoConfig(TrialConfig):
    """Settings of the demonstration: every second job is a query, the others are replayed."""

    policies: tuple[str, ...] = ("spark-fifo", "spark-fair", "strict_fair", "decima")
    jobs: int = 16
    interarrival_s: float = 0.7
    time_scale: float = 0.03

    def __post_init__(self) -> None:
        super().__post_init__()
        if IN_POOLS in self.policies or self.pools or self.parameters:
            raise AttachError("the demonstration has neither pools nor parameters")


@dataclass(frozen=True)
class DemoOutcome:
    """One policy's run of the demonstration."""

    policy: str
    jct_s: Float64
    """(K,)"""
    is_query: NDArray[np.bool_]
    """(K,) a TPC-H query; else a replayed job"""


def run_demo(
    config: DemoConfig, progress: Callable[[str], None] = lambda _: None
) -> list[DemoOutcome]:
    """Run all policies on the same jobs, each in a Spark of its own, else AttachError."""
    rng = np.random.default_rng(config.seed)
    jobs = list(at_scale(load_trace("tpch"), config.time_scale).jobs)
    arrival_s = np.cumsum(rng.exponential(config.interarrival_s, config.jobs))
    work: list[int | Job] = [
        int(rng.choice(QUERIES)) if number % 2 == 0 else jobs[rng.integers(len(jobs))]
        for number in range(config.jobs)
    ]
    is_query = np.array([isinstance(item, int) for item in work])
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="decima-demo-") as folder:
        progress(f"writing the TPC-H tables at scale factor {SCALE_FACTOR:g}")
        generate_tables(find_generator(), SCALE_FACTOR, Path(folder), MANY_TASKS)
        for policy in config.policies:
            progress(f"running {policy}")
            jct_s = _demonstrated_s(policy, config.slots, Path(folder), work, arrival_s)
            outcomes.append(DemoOutcome(policy, jct_s, is_query))
    return outcomes


def _demonstrated_s(
    policy: str, slots: int, tables: Path, work: Sequence[int | Job], arrival_s: Float64
) -> Float64:
    """(K,) JCT of queries, by number, and jobs."""
    spark = local_session(slots, fair=policy == "spark-fair")
    try:
        for table in sorted(tables.iterdir()):
            spark.read.parquet(str(table)).createOrReplaceTempView(table.name)
        replayer = Replayer(spark)

        def run(number: int) -> None:
            item = work[number]
            if isinstance(item, int):
                spark.sql(query_text(item, SCALE_FACTOR)).collect()
            else:
                replayer.run_one(item.name, graph_text(item))

        names = [
            f"{f'q{item}' if isinstance(item, int) else item.name} #{number}"
            for number, item in enumerate(work)
        ]
        run(0)  # to warm up
        submit = partial(submit_all, spark.sparkContext, names, arrival_s, run)
        return _under(policy, spark, submit)[0]
    finally:
        spark.stop()
