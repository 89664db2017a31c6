"""Settings of `decima whatif`, with and without `--applications`."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

from decima.policies import check_name
from decima.registry import HEURISTICS
from decima.whatif.load import recorded_reference, recorded_slots, varying_slots
from decima.whatif.replay import Recording
from decima.whatif.replay.check import session_cluster
from decima.whatif.replay.recording import FAIR, FIFO, POOLS
from spark_sim import Cluster, Protocol
from spark_sim.cluster import MAX_EXECUTORS, MOVING_DELAY_S
from traces.estimates import KINDS, Estimates
from traces.numbers import MS_PER_S

Sharing = Literal["session", "executors"]
"""protocol: one session that shares its slots, or one application for each job"""
PROTOCOLS: tuple[Sharing, ...] = get_args(Sharing)
_SHARED_DRAWS = 4
CHECK_DRAWS = 5
"""repetitions of the recording that measure the error of its replay"""

RECORDED, STATIC, DYNAMIC = "recorded", "static", "dynamic"
OWN_WAYS = {
    RECORDED: "each application has its recorded executors at each time",
    STATIC: "each application has an equal number of executors from its start to its end",
    FIFO: "Spark's default: the first application takes all executors until it ends",
    DYNAMIC: "Spark's dynamic allocation with its defaults, free executors by FIFO",
}
"""ways that need no coordinator; other names are policies of one"""
ALONE = "alone"
"""each application has the whole cluster: a bound"""


class _StudySettings:
    """What the settings of all studies have in common."""

    policies: tuple[str, ...]
    estimates: Estimates
    seed: int

    @property
    def reference(self) -> str:
        """The policy, or the way to divide executors, that the others are compared with."""
        return self.policies[0]

    def _check(self, exempt: Container[str], counts: tuple[str, ...]) -> None:
        """Refuse impossible values; policies in `exempt` are known here only."""
        if not self.policies:
            raise ValueError("no policy to compare")
        for name in self.policies:
            if name not in exempt:
                check_name(name)
            if self.policies.count(name) > 1:
                raise ValueError(f"policy {name!r} is named twice")
        if self.estimates not in KINDS:
            raise ValueError(f"estimates {self.estimates!r} must be one of {', '.join(KINDS)}")
        for label in counts:
            if not 1 <= getattr(self, label) <= 10_000:
                raise ValueError(f"{label} must lie in 1..10,000, got {getattr(self, label)}")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}")


@dataclass(frozen=True)
class WhatIfSettings(_StudySettings):
    """Settings of `study.what_if`. Times are seconds, as at the command line."""

    executors: int
    """executors of one slot each, 1 or more"""
    policies: tuple[str, ...] = (
        "fifo",
        "spark_fair",
        "tuned_weighted_fair",
        "tuned_srw",
        "es_rule",
        "decima",
    )
    """by name; the first is what the others are compared with"""
    protocol: Sharing = "session"
    estimates: Estimates = "exact"
    """estimates of task durations that policies observe (`traces.estimates`)"""
    draws: int = 10
    """repetitions of the recorded arrivals with other task durations"""
    sequences: int = 20
    """resampled arrival sequences to evaluate on"""
    training: int = 3
    """further resampled sequences to tune on"""
    held_back: int = 5
    """further ones on which tuned parameters must beat the shipped ones to be used"""
    seed: int = 0
    moving_delay_s: float = MOVING_DELAY_S
    """to start an executor in another application; none in a shared session"""
    slots_vary: bool = False
    """whether slots come and go as recorded, `executors` being the most; resampled arrivals find
    the average"""
    allocation: Mapping[str, str] | None = None
    """changes to the recorded settings of dynamic allocation, which is simulated then; None takes
    the slots that `slots_vary` names"""
    least_slots: int = 1
    """fewest on which every stage of the recording can run"""
    warmup_delay_s: float = 1.0
    """of an executor's first task in an application; a shared session has it measured"""
    max_slots: Mapping[str, int] | None = None
    """by pool, the most slots that its jobs hold together when the reference is bounded"""
    max_jobs: int | None = None
    """jobs that run at once then; the reference chooses among those that wait"""

    def __post_init__(self) -> None:
        self._check((POOLS,), ("draws", "sequences", "training", "held_back"))
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol {self.protocol!r} must be {' or '.join(PROTOCOLS)}")
        if self.executors < self.least_slots:
            raise ValueError(
                f"{self.executors:,} slots are too few: a stage needs {self.least_slots:,} at once"
            )
        is_session = self.protocol == Protocol.SESSION.label
        of_sessions = {
            f"policy {POOLS} needs": POOLS in self.policies,
            "slots that vary need": self.slots_vary,
            "dynamic allocation needs": self.allocation is not None,
            "max_slots and max_jobs need": self.is_bounded,
        }
        for words, is_asked in of_sessions.items():
            if is_asked and not is_session:
                raise ValueError(f"{words} the protocol {Protocol.SESSION.label}")
        if self.allocation is not None and self.slots_vary:
            raise ValueError("slots come and go as recorded or follow the allocation, not both")
        if self.is_bounded and self.allocation is not None:
            raise ValueError("max_slots and max_jobs are not simulated under dynamic allocation")
        for name, slots in (self.max_slots or {}).items():
            if slots < 1:
                raise ValueError(f"a cap is 1 slot or more, got {slots} for pool {name!r:.60}")
        self.cluster(self.executors, is_bounded=is_session)

    @classmethod
    def fitting(
        cls,
        recording: Recording,
        executors: int | None = None,
        policies: tuple[str, ...] | None = None,
        protocol: Sharing = "session",
        allocation: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Self:
        """Return settings for a recording: its slots and policy where none are given."""
        is_session = protocol == Protocol.SESSION.label
        slots = recorded_slots(recording)
        if executors is None and allocation is not None:
            model = recording.allocation(0, allocation)
            slots = slots if model is None else model.slots
        if policies is None:
            reference = recorded_reference(recording)
            if not is_session and reference == POOLS:
                reference = FAIR
            policies = (reference, *(name for name in cls.policies if name != reference))
        neediest = recording.neediest()
        varies = is_session and varying_slots(recording) is not None
        return cls(
            slots if executors is None else executors,
            policies,
            protocol,
            least_slots=1 if neediest is None else neediest.slots,
            allocation=allocation,
            slots_vary=executors is None and allocation is None and varies,
            **options,
        )

    @property
    def is_bounded(self) -> bool:
        """Whether the reference is simulated under bounds, too."""
        return self.max_jobs is not None or bool(self.max_slots)

    @property
    def tuned(self) -> tuple[str, ...]:
        """The policies that have parameters to fit."""
        return tuple(
            name for name in self.policies if name in HEURISTICS and HEURISTICS[name].search
        )

    @property
    def shared_draws(self) -> int:
        """Repetitions that every number of executors has; the one asked for has more."""
        return min(_SHARED_DRAWS, self.draws)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of executors to look at: half, as many, twice."""
        around = {self.executors // 2, self.executors, 2 * self.executors}
        return tuple(sorted(n for n in around if self.least_slots <= n <= MAX_EXECUTORS))

    def cluster(self, executors: int, *, is_bounded: bool = False) -> Cluster:
        """The cluster with that many executors; bounded, only `max_jobs` run at once."""
        if self.protocol == Protocol.SESSION.label:
            cluster = session_cluster(executors)
            return replace(cluster, max_jobs=self.max_jobs) if is_bounded else cluster
        return Cluster(
            num_executors=executors,
            moving_delay_ms=self.moving_delay_s * MS_PER_S,
            warmup_delay_ms=self.warmup_delay_s * MS_PER_S,
            protocol=Protocol.EXECUTORS,
        )


@dataclass(frozen=True)
class ApplicationsSettings(_StudySettings):
    """Settings of `applications_what_if`. Times are seconds, as at the command line."""

    slots: int
    """of the cluster"""
    policies: tuple[str, ...] = (RECORDED, STATIC, FIFO, DYNAMIC, "strict_fair", "decima")
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
        self._check(OWN_WAYS, ("draws",))
        if self.moving_delay_s is not None and not 0 <= self.moving_delay_s <= 3_600:
            raise ValueError(f"moving delay must lie in 0..3,600 s, got {self.moving_delay_s:g}")
