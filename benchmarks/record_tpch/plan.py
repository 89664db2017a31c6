"""Plan of a recording: sizes of data, queries, and the Spark settings that shape jobs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from traces.errors import TraceError
from traces.loopback import LOOPBACK
from traces.tpch.tables import MANY_TASKS, Layout

QUERIES = tuple(range(1, 23))

APPLICATION = "tpch"  # name of the Spark application
WARM_UP = "warm-up"  # description of the warm-up runs

MAX_SCALE_FACTOR = 1_000.0  # bound by one machine's disk; TPC-H itself defines larger ones

PARTITIONS_PER_SCALE_FACTOR = 100
FEWEST_PARTITIONS, MOST_PARTITIONS = 20, 200


class Variant(Enum):
    """Variant of the Spark settings that shape jobs."""

    CLUSTER = "cluster"
    """many tasks for each stage and every join by shuffle, as for data that need a cluster"""
    DEFAULTS = "defaults"
    """Spark's own defaults: adaptive execution, broadcast joins, partitions of 128 MiB"""


LAYOUTS: Mapping[Variant, Layout] = {
    Variant.CLUSTER: MANY_TASKS,
    Variant.DEFAULTS: Layout(None, None),
}

_COMMON = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    **LOOPBACK,
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "true",
    "spark.eventLog.compression.codec": "zstd",
    # With the default of 100, queries would evict each other's compiled code, and tasks that
    # should be warm would pay for compiling again.
    "spark.sql.codegen.cache.maxEntries": "5000",
}
_CLUSTER = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.files.maxPartitionBytes": "1m",
}


class QueryRun(NamedTuple):
    """One execution of one query."""

    job: str  # name of the job in the trace
    repetition: int  # number from 1; 0 is a warm-up
    scale_factor: float
    query: int

    @property
    def description(self) -> str:
        """Spark's description of the job, which identifies it in the log."""
        return WARM_UP if self.repetition == 0 else f"{self.job}/run{self.repetition}"


@dataclass(frozen=True)
class RecordingPlan:
    """Plan of a recording. The defaults are those of the trace that comes with the project."""

    scale_factors: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0)
    """TPC-H scale factors; 1 is about 0.4 GB of Parquet"""
    queries: tuple[int, ...] = QUERIES
    variant: Variant = Variant.CLUSTER
    repetitions: int = 2
    """runs of each job, time permitting; the one with the least work is stored"""
    time_limit_s: float = 1_500.0
    """repetitions after the first begin until then; the first is always made in full"""
    cores: int = 2
    """slots of Spark's local master"""
    driver_memory: str = "4g"

    def __post_init__(self) -> None:
        if not self.scale_factors or len(set(self.scale_factors)) < len(self.scale_factors):
            raise TraceError(f"scale factors {list(self.scale_factors)}: give each once, one least")
        for factor in self.scale_factors:
            if not (math.isfinite(factor) and 0 < factor <= MAX_SCALE_FACTOR):
                raise TraceError(
                    f"scale factor {factor:g} must be above 0 and at most {MAX_SCALE_FACTOR:g}"
                )
        if not self.queries or not set(self.queries) <= set(QUERIES):
            raise TraceError(f"queries {list(self.queries)} must be some of 1 to {QUERIES[-1]}")
        if self.repetitions < 1 or self.cores < 1:
            raise TraceError(
                f"repetitions {self.repetitions} and cores {self.cores} must be at least 1"
            )
        if re.fullmatch(r"\d+[mg]", self.driver_memory) is None:
            raise TraceError(f"driver memory {self.driver_memory!r}: a number and m or g, as in 4g")
        if not self.time_limit_s >= 0:
            raise TraceError(f"time limit {self.time_limit_s:g} s must not be negative")

    @property
    def master(self) -> str:
        return f"local[{self.cores}]"

    def runs(self) -> Iterator[QueryRun]:
        """Warm-up of all queries on the smallest data, then pass after pass.

        Repetitions of a job are a whole pass apart, so a disturbance rarely affects both.
        """
        smallest = min(self.scale_factors)
        for repetition in range(self.repetitions + 1):
            for factor in self.scale_factors if repetition > 0 else (smallest,):
                for query in self.queries:
                    yield QueryRun(f"sf{factor:g}/q{query}", repetition, factor, query)

    def launch_settings(self) -> dict[str, str]:
        """Settings of the whole session."""
        settings = _CLUSTER if self.variant is Variant.CLUSTER else {}
        return {**_COMMON, "spark.driver.memory": self.driver_memory, **settings}

    def size_settings(self, scale_factor: float) -> dict[str, str]:
        """Settings that depend on the size of the data: shuffles of larger data are wider."""
        if self.variant is Variant.DEFAULTS:
            return {}
        wanted = round(PARTITIONS_PER_SCALE_FACTOR * scale_factor)
        partitions = min(max(wanted, FEWEST_PARTITIONS), MOST_PARTITIONS)
        return {"spark.sql.shuffle.partitions": str(partitions)}
