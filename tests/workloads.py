"""Random small workloads for property tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from spark_sim import PASS, Action, Cluster, ExecutorClass, Observation, Protocol, Simulator
from spark_sim.tables import ANY, Table
from traces import Job, LevelDurations, Stage, Trace, to_arrays


@dataclass(frozen=True)
class Workload:
    """Jobs with their arrivals, and the cluster they meet."""

    trace: Trace
    arrival_ms: tuple[float, ...]
    cluster: Cluster
    seed: int

    def simulator(self, cluster: Cluster | None = None) -> Simulator:
        """A new run, with a timeline."""
        return Simulator(
            to_arrays(self.trace),
            self.cluster if cluster is None else cluster,
            np.array(self.arrival_ms, np.float64),
            np.arange(len(self.arrival_ms), dtype=np.int32),
            duration_key=self.seed,
            timeline=True,
        )


class Arbitrary:
    """Any legal action, now and then a pass: nothing that a policy may do is left out."""

    name = "arbitrary"

    def __init__(self, seed: int, pass_share: float = 0.15) -> None:
        self._rng = np.random.default_rng(seed)
        self._pass_share = pass_share

    def decide(self, observation: Observation) -> Action:
        open_stages = observation.open_stages()
        if len(open_stages) == 0 or self._rng.random() < self._pass_share:
            return PASS
        stage = int(self._rng.choice(open_stages))
        limits = observation.legal_limits(stage)
        limit = int(self._rng.integers(limits.start, limits.stop))
        return Action(stage, limit, int(self._rng.choice([ANY, *observation.legal_kinds(stage)])))


class Capped:
    """Any stage and class, now and then a pass, but always the same limit for every job."""

    name = "capped"

    def __init__(self, limit: int, seed: int) -> None:
        self._limit = limit
        self._rng = np.random.default_rng(seed)

    def decide(self, observation: Observation) -> Action:
        open_stages = [
            int(stage)
            for stage in observation.open_stages()
            if self._limit in observation.legal_limits(stage)
        ]
        if not open_stages or self._rng.random() < 0.15:
            return PASS
        stage = int(self._rng.choice(open_stages))
        kind = int(self._rng.choice([ANY, *observation.legal_kinds(stage)]))
        return Action(stage, self._limit, kind)


def most_at_once(timeline: Table) -> int:
    """The most tasks of one job that ran at the same time."""
    most = 0
    for job in np.unique(timeline["job"]):
        own = timeline[timeline["job"] == job]
        times = np.concatenate([own["start_ms"], own["finish_ms"]])
        change = np.repeat([1, -1], len(own))
        # At one instant tasks end before others start.
        most = max(most, int(np.cumsum(change[np.lexsort((change, times))]).max()))
    return most


# Few distinct values, all multiples of one another: events often coincide, which is where order
# matters and where faults hide.
DURATIONS_MS = st.sampled_from([250.0, 500.0, 1000.0, 2000.0])

MEMORY_MB = (250.0, 500.0, 750.0, 1000.0)
"""demands of tasks, and sizes of executors"""


@st.composite
def classes(draw: st.DrawFn, num_executors: int) -> tuple[ExecutorClass, ...] | None:
    """None, or up to four classes, of which the largest holds every task."""
    if draw(st.booleans()):
        return None
    sizes = [draw(st.sampled_from(MEMORY_MB)) for _ in range(num_executors - 1)]
    counts = Counter([*sizes, MEMORY_MB[-1]])
    return tuple(ExecutorClass(counts[size], memory_mb=size) for size in sorted(counts))


@st.composite
def stages(draw: st.DrawFn, index: int, count: int) -> Stage:
    """Stage `index` of `count`; its parents have larger or smaller numbers, never both ways."""
    executors = draw(st.sampled_from([(1,), (2, 4)]))
    levels = []
    for level in executors:
        fresh = draw(st.lists(DURATIONS_MS, max_size=2))
        first = draw(st.lists(DURATIONS_MS, min_size=0 if fresh else 1, max_size=2))
        rest = draw(st.lists(DURATIONS_MS, max_size=2))
        levels.append(LevelDurations.of(level, fresh_ms=fresh, first_ms=first, rest_ms=rest))
    # Parents come later in the list: the order of stages is not a topological one.
    parents = [later for later in range(index + 1, count) if draw(st.booleans())]
    tasks, memory_mb = draw(st.integers(1, 5)), draw(st.sampled_from(MEMORY_MB))
    return Stage(f"s{index}", tasks, tuple(parents), tuple(levels), memory_mb=memory_mb)


@st.composite
def jobs(draw: st.DrawFn, name: str) -> Job:
    count = draw(st.integers(1, 5))
    return Job(name, tuple(draw(stages(index, count)) for index in range(count)))


@st.composite
def workloads(draw: st.DrawFn, protocol: Protocol | None = None) -> Workload:
    """Up to four jobs on up to six executors."""
    count = draw(st.integers(1, 4))
    trace = Trace("random", tuple(draw(jobs(f"j{index}")) for index in range(count)))
    gaps = draw(st.lists(st.sampled_from([0.0, 250.0, 2000.0]), min_size=count, max_size=count))
    protocol = draw(st.sampled_from(list(Protocol))) if protocol is None else protocol
    num_executors = draw(st.integers(1, 6))
    cluster = Cluster(
        num_executors=num_executors,
        moving_delay_ms=draw(st.sampled_from([0.0, 500.0, 2000.0])),
        warmup_delay_ms=draw(st.sampled_from([0.0, 1000.0])),
        protocol=protocol,
        classes=draw(classes(num_executors)) if protocol is Protocol.EXECUTORS else None,
    )
    return Workload(trace, tuple(np.cumsum(gaps).tolist()), cluster, draw(st.integers(0, 2**32)))
