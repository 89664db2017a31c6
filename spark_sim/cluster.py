"""The cluster that jobs share: executors, delays, protocol."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from enum import IntEnum
from numbers import Integral

from spark_sim import tables
from spark_sim.errors import SimulationError
from spark_sim.tables import MAX_CLASSES
from traces.files.names import suggestion
from traces.numbers import MS_PER_S

MAX_DELAY_MS = 1e9
"""12 days; times beyond it lose their milliseconds"""
MAX_EXECUTORS = 100_000
MOVING_DELAY_S = 2.0
"""time to start an executor in another job, as in decima-sim"""


class Protocol(IntEnum):
    """Protocol by which executors are offered to the policy; `docs/simulator.md` compares the
    three.
    """

    EXECUTORS = tables.EXECUTORS
    """the default: executors move between jobs, every idle one is offered at every event"""
    SESSION = tables.SESSION
    """one SparkSession: slots are offered again after every task and never move"""
    DECIMA_SIM = tables.DECIMA_SIM
    """the rules of decima-sim with its bugs, to compare with published figures"""

    @classmethod
    def parse(cls, name: str) -> Protocol:
        """Return the protocol called `name` at the command line ("executors", "session",
        "decima-sim")."""
        try:
            return cls[name.upper().replace("-", "_")]
        except KeyError:
            names = ", ".join(protocol.label for protocol in cls)
            near = suggestion(name, (protocol.label for protocol in cls))
            raise SimulationError(f"unknown protocol {name!r}{near}; there are {names}") from None

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True)
class ExecutorClass:
    """Executors of one size (Decima section 7.3 uses four classes by memory)."""

    count: int
    """executors of this class"""
    cpu: float = math.inf
    """cores of each"""
    memory_mb: float = math.inf
    """memory of each"""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise SimulationError(f"an executor class needs a count of 1 or more, got {self.count}")
        if not self.cpu > 0 or not self.memory_mb > 0:
            raise SimulationError(
                f"an executor needs cpu > 0 and memory > 0, got {self.cpu} and {self.memory_mb}"
            )


def parse_classes(text: str) -> tuple[ExecutorClass, ...]:
    """Classes as at the command line, small ones first: "4x12,8x6" are 12 executors of 4 GB and 6
    of 8; "4:1x12" have a core each.

    Raises:
        SimulationError: another form, or an impossible class.
    """
    classes = []
    for part in text.split(","):
        match = _CLASS.fullmatch(part.strip())
        if match is None:
            raise SimulationError(
                f"executor class {part.strip()!r:.40}: write GBxCOUNT or GB:CORESxCOUNT, such as "
                "0.5x12 or 8:4x10"
            )
        memory_gb, cores, count = match["memory"], match["cores"], int(match["count"])
        cpu = math.inf if cores is None else float(cores)
        classes.append(ExecutorClass(count, cpu, float(memory_gb) * MB_PER_GB))
    return tuple(sorted(classes, key=lambda kind: (kind.memory_mb, kind.cpu)))


_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_CLASS = re.compile(rf"(?P<memory>{_NUMBER})(?::(?P<cores>{_NUMBER}))?x(?P<count>[0-9]{{1,6}})")
MB_PER_GB = 1024.0


@dataclass(frozen=True)
class Cluster:
    """Cluster of a simulation. Delays are decima-sim's by default (its appendix and code)."""

    num_executors: int = 50
    """executors, each runs one task at a time"""
    moving_delay_ms: float = MOVING_DELAY_S * MS_PER_S
    """time to start an executor in another job; no effect in a shared session"""
    warmup_delay_ms: float = 1000.0
    """added to an executor's first task in a job where the trace has no such measurement"""
    protocol: Protocol = Protocol.EXECUTORS
    """protocol of offers"""
    time_limit_ms: float | None = None
    """truncate the simulation there; None runs until all jobs are complete"""
    ask_while_idle: bool = True
    """in a session: ask at nearly every task end while slots are idle; False: only if the job of
    the task has a stage to choose and none in the plan"""
    max_jobs: int | None = None
    """jobs of a session that run at once; those beyond wait until another ends. None: any number"""
    ask_admission: bool = True
    """when one of `max_jobs` ends, ask the policy for the next, showing it the waiting jobs alone:
    that of the stage that it chooses, or the first submitted if it passes. False: always the first
    submitted"""
    classes: tuple[ExecutorClass, ...] | None = None
    """sizes of executors, small ones first, counts adding up to `num_executors`; an executor runs
    one task at a time, of a stage whose demands it can hold. None: every task fits everywhere"""

    def __post_init__(self) -> None:
        if not isinstance(self.protocol, Protocol):
            raise SimulationError(f"protocol {self.protocol!r:.40} is no member of `Protocol`")
        if isinstance(self.num_executors, bool) or not isinstance(self.num_executors, Integral):
            raise SimulationError(f"executors are counted, got {self.num_executors!r:.40}")
        if not 1 <= self.num_executors <= MAX_EXECUTORS:
            raise SimulationError(
                f"number of executors must lie in 1..{MAX_EXECUTORS:,}, got {self.num_executors}"
            )
        for label, delay in (("moving", self.moving_delay_ms), ("warm-up", self.warmup_delay_ms)):
            if not (math.isfinite(delay) and 0 <= delay <= MAX_DELAY_MS):
                raise SimulationError(
                    f"{label} delay must be finite, >= 0 and <= {MAX_DELAY_MS:g} ms, got {delay}"
                )
        if self.time_limit_ms is not None and not self.time_limit_ms > 0:
            raise SimulationError(f"time limit must be positive, got {self.time_limit_ms} ms")
        if self.max_jobs is not None:
            self._check_max_jobs(self.max_jobs)
        if self.classes is not None:
            self._check_classes(self.classes)

    def _check_max_jobs(self, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
            raise SimulationError(
                f"jobs at once are a whole number of 1 or more, got {count!r:.40}"
            )
        if self.protocol is not Protocol.SESSION:
            raise SimulationError(
                f"protocol {self.protocol.label!r} has no bound on jobs at once, only "
                f"{Protocol.SESSION.label!r}"
            )

    def _check_classes(self, classes: tuple[ExecutorClass, ...]) -> None:
        if not 1 <= len(classes) <= MAX_CLASSES:
            raise SimulationError(
                f"a cluster has 1 to {MAX_CLASSES} executor classes, not {len(classes)}"
            )
        total = sum(kind.count for kind in classes)
        if total != self.num_executors:
            raise SimulationError(
                f"executor classes count {total} executors, the cluster has {self.num_executors}"
            )
        for before, after in itertools.pairwise(classes):
            if (before.memory_mb, before.cpu) >= (after.memory_mb, after.cpu):
                raise SimulationError(
                    f"executor classes of {before.memory_mb:g} and {after.memory_mb:g} MB, "
                    f"{before.cpu:g} and {after.cpu:g} cores: small ones come first, each once"
                )
        if len(classes) > 1 and self.protocol is not Protocol.EXECUTORS:
            raise SimulationError(
                f"protocol {self.protocol.label!r} has no executor classes, only "
                f"{Protocol.EXECUTORS.label!r}"
            )
