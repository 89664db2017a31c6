"""Settings of `decima whatif --applications`, and the ways to divide a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from decima.policies import check_name
from spark_sim.cluster import MAX_EXECUTORS
from traces.estimates import KINDS, Estimates

RECORDED, STATIC, FIFO, DYNAMIC = "recorded", "static", "fifo", "dynamic"
OWN_WAYS = {
    RECORDED: "each application has its recorded executors at each time",
    STATIC: "each application has an equal number of executors from its start to its end",
    FIFO: "Spark's default: the first application takes all executors until it ends",
    DYNAMIC: "Spark's dynamic allocation with its defaults, free executors by FIFO",
}
"""ways that need no coordinator; other names are policies of one"""
ALONE = "alone"
"""each application has the whole cluster: a bound"""


@dataclass(frozen=True)
class ApplicationsSettings:
    """Settings of `study.applications_what_if`. Times are seconds, as at the command line."""

    slots: int
    """of the cluster"""
    ways: tuple[str, ...] = (RECORDED, STATIC, FIFO, DYNAMIC, "strict_fair", "decima")
    """`OWN_WAYS` and policies of the coordinator; the first is what the others are compared with"""
    estimates: Estimates = "exact"
    """estimates of task durations that policies observe (`traces.estimates`)"""
    draws: int = 10
    """repetitions with other task durations"""
    seed: int = 0
    moving_delay_s: float | None = None
    """from a request to an executor; None: measured in the logs"""

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= MAX_EXECUTORS:
            raise ValueError(f"executors must lie in 1..{MAX_EXECUTORS:,}, got {self.slots}")
        if not self.ways:
            raise ValueError("no policy to compare")
        for name in self.ways:
            if name not in OWN_WAYS:
                check_name(name)
        twice = [name for name in self.ways if self.ways.count(name) > 1]
        if twice:
            raise ValueError(f"policy {twice[0]!r} is named twice")
        if self.estimates not in KINDS:
            raise ValueError(f"estimates {self.estimates!r} must be one of {', '.join(KINDS)}")
        if not 1 <= self.draws <= 10_000:
            raise ValueError(f"draws must lie in 1..10,000, got {self.draws}")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}")
        if self.moving_delay_s is not None and not 0 <= self.moving_delay_s <= 3_600:
            raise ValueError(f"moving delay must lie in 0..3,600 s, got {self.moving_delay_s:g}")

    @property
    def reference(self) -> str:
        """The way that the others are compared with."""
        return self.ways[0]
