"""`run_trial`: the same replayed jobs under several schedulers of a local Spark, in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decima.policies import HEURISTICS, is_learned
from decima.spark.attaching import attach
from decima.spark.errors import AttachError
from decima.spark.policy_process import START_S
from decima.spark.replay import Replayer, at_scale, simulated_s, with_overhead
from decima.spark.scheduler import Status
from traces import Job, Trace

Floats = NDArray[np.float64]

PLAIN = ("spark-fifo", "spark-fair")
"""Spark's own schedulers, with nothing of ours attached"""
_SIMULATED_AS = {"spark-fifo": "fifo", "spark-fair": "spark_fair"}


@dataclass(frozen=True)
class TrialConfig:
    """What is replayed where."""

    policies: tuple[str, ...]
    jobs: int = 20
    slots: int = 16
    interarrival_s: float = 1.0
    """mean gap in real seconds"""
    time_scale: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.policies:
            if name not in PLAIN and name not in HEURISTICS and not is_learned(name):
                known = ", ".join((*PLAIN, *HEURISTICS))
                raise AttachError(f"unknown policy {name!r}; there are {known}, decima")
        if not self.policies:
            raise AttachError("policies: name at least one")
        for label in ("jobs", "slots"):
            if getattr(self, label) < 1:
                raise AttachError(f"{label} must be at least 1, got {getattr(self, label)}")
        for label in ("interarrival_s", "time_scale"):
            if not 0 < getattr(self, label) < float("inf"):
                raise AttachError(f"{label} must be positive, got {getattr(self, label)}")


@dataclass(frozen=True)
class Outcome:
    """One policy's run of the jobs."""

    policy: str
    jct_s: Floats
    """(K,) on Spark"""
    simulated_s: Floats
    """(K,) in the simulator, whose tasks take `overhead_ms` more than they sleep"""
    overhead_ms: float
    """what Spark adds to a task, measured before the jobs came"""
    status: Status | None
    """of our scheduler; None where Spark's own ran"""

    @property
    def error(self) -> float:
        """Median over jobs of |Spark / simulator - 1|."""
        return float(np.median(np.abs(self.jct_s / self.simulated_s - 1)))

    @property
    def bias(self) -> float:
        """Mean JCT on Spark over that in the simulator, minus 1."""
        return float(self.jct_s.mean() / self.simulated_s.mean() - 1)


def draw_jobs(trace: Trace, config: TrialConfig) -> tuple[list[Job], Floats]:
    """The jobs and when each arrives, in real seconds; the first at once."""
    rng = np.random.default_rng(config.seed)
    scaled = at_scale(trace, config.time_scale)
    rows = rng.integers(len(scaled.jobs), size=config.jobs)
    gaps_s = rng.exponential(config.interarrival_s, config.jobs)
    gaps_s[0] = 0.0
    arrival_s: Floats = np.cumsum(gaps_s)
    return [scaled.jobs[row] for row in rows], arrival_s


def run_trial(
    trace: Trace, config: TrialConfig, progress: Callable[[str], None] = lambda _: None
) -> list[Outcome]:
    """Run all policies.

    Raises:
        AttachError: no pyspark, no Java, or a job failed.
    """
    jobs, arrival_s = draw_jobs(trace, config)
    found = []
    for policy in config.policies:
        progress(policy)
        found.append(_on_spark(policy, config, jobs, arrival_s))
    return found


def _on_spark(policy: str, config: TrialConfig, jobs: Sequence[Job], arrival_s: Floats) -> Outcome:
    spark = local_session(config.slots, fair=policy == "spark-fair")
    try:
        replayer = Replayer(spark)
        overhead_ms = replayer.overhead_ms(config.slots)
        if policy in PLAIN:
            jct_s, status = replayer.run(jobs, arrival_s), None
        else:
            priors = Trace("replayed", tuple({job.name: job for job in jobs}.values()))
            with attach(spark, policy, priors=priors, ready_s=START_S) as scheduler:
                jct_s = replayer.run(jobs, arrival_s)
                status = scheduler.status()
    finally:
        spark.stop()
    simulated = expected_s(policy, config, jobs, arrival_s, overhead_ms)
    return Outcome(policy, jct_s, simulated, overhead_ms, status)


def expected_s(
    policy: str, config: TrialConfig, jobs: Sequence[Job], arrival_s: Floats, overhead_ms: float
) -> Floats:
    """(K,) JCT in the simulator where Spark adds `overhead_ms` to each task."""
    longer = [with_overhead(job, overhead_ms) for job in jobs]
    return simulated_s(longer, arrival_s, config.slots, _SIMULATED_AS.get(policy, policy))


def local_session(slots: int, *, fair: bool) -> Any:
    """A quiet local Spark.

    Raises:
        AttachError: pyspark is not installed, or Java does not start.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise AttachError(
            "pyspark is not installed: pip install 'decima-scheduler[spark]'"
        ) from error
    builder = (
        SparkSession.builder.master(f"local[{slots}]")
        .appName("decima replay")
        .config("spark.scheduler.mode", "FAIR" if fair else "FIFO")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise AttachError(f"Spark does not start (is Java there?): {error}") from error
    spark.sparkContext.setLogLevel("OFF")
    return spark
