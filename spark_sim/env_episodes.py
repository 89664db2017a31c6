"""Episodes of the Gymnasium environments: arrivals, seeds, interface, summaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spark_sim.cluster import Cluster
from spark_sim.env_actions import ActionForm, Illegal, Limits
from spark_sim.env_view import Padded, Sight, View
from spark_sim.errors import SimulationError
from spark_sim.metrics import measure
from spark_sim.seeding import Streams
from spark_sim.tables import State
from spark_sim.vector import Run
from traces import ARRIVALS, Arrivals, Trace, load_trace, to_arrays
from traces.numbers import MS_PER_S, Bool

ArrivalSource = Callable[[Trace, np.random.Generator], Arrivals]
"""function that draws the jobs of one episode from the episode's own generator"""


@dataclass(frozen=True)
class ArrivalSettings:
    """The jobs of an episode, drawn by one of `traces.ARRIVALS`: an `ArrivalSource`."""

    num_jobs: int = 20
    """jobs that arrive in an episode"""
    mean_gap_s: float = 25.0
    """mean time between two arrivals; no effect in a batch"""
    process: str = "poisson"
    """name in `traces.ARRIVALS`"""

    def __post_init__(self) -> None:
        if self.process not in ARRIVALS:
            raise SimulationError(f"unknown process {self.process!r}; there are {list(ARRIVALS)}")
        if self.num_jobs < 1 or not 0 < self.mean_gap_s < float("inf"):
            raise SimulationError(
                f"need num_jobs >= 1 and a finite mean_gap_s > 0, got {self.num_jobs} and "
                f"{self.mean_gap_s}"
            )

    def __call__(self, trace: Trace, rng: np.random.Generator) -> Arrivals:
        return ARRIVALS[self.process](trace, self.num_jobs, self.mean_gap_s * MS_PER_S, rng)


_CLUSTER = Cluster()
_ARRIVALS = ArrivalSettings()


class Episodes:
    """Generator of episodes, observations and actions; `SparkEnv` describes the settings."""

    def __init__(
        self,
        trace: Trace | None = None,
        cluster: Cluster = _CLUSTER,
        arrivals: ArrivalSource = _ARRIVALS,
        max_jobs: int = 32,
        max_stages: int = 256,
        limits: Limits = "absolute",
        illegal: Illegal = "warn",
        scaled: bool = False,
    ) -> None:
        """Check the settings.

        Raises:
            SimulationError: the trace is no trace, a bound is too small or a choice is unknown.
        """
        trace = load_trace("tpch") if trace is None else trace
        if not isinstance(trace, Trace):
            raise SimulationError(f"trace {trace!r:.60}: give a Trace, such as load_trace('tpch')")
        largest = max(trace.jobs, key=lambda job: len(job.stages))
        if max_jobs < 1 or max_stages < len(largest.stages):
            raise SimulationError(
                f"max_jobs {max_jobs} must be 1 or more and max_stages {max_stages} at least "
                f"{len(largest.stages)}, the stages of job {largest.name!r}"
            )
        self._trace = trace
        self._arrivals = arrivals
        self._view = View(trace, cluster, max_jobs, max_stages, scaled)
        # An agent has no action that lets a job enter.
        self.cluster = replace(cluster, ask_admission=False)
        self.arrays = to_arrays(trace)
        self.actions = ActionForm(cluster, max_stages, limits, illegal)
        self.observation_space = self._view.space

    def run(self, streams: Streams) -> Run:
        """The episode of `streams`."""
        drawn = self._arrivals(self._trace, streams.arrivals())
        return Run(drawn.arrival_ms, drawn.job, streams.duration_key())

    def sight(self, states: State, is_due: Bool) -> Sight:
        """Return the jobs and stages that stacked simulations show."""
        return self._view.sight(states, is_due)

    def show(self, sight: Sight) -> Padded:
        """The observations of simulations, with an axis for them in front."""
        return self._view.show(sight)


class Completions:
    """Jobs of one simulation that have completed."""

    def __init__(self) -> None:
        self.count = 0
        self._complete = np.zeros(0, np.bool_)

    def since(self, state: State) -> tuple[tuple[int, float], ...]:
        """Row in the trace and JCT in s of each job that has completed since the last call."""
        jobs = state.jobs[: state.clock[0]["next_arrival"]]
        complete = ~np.isnan(jobs["completion_ms"])
        before = np.zeros(len(jobs), np.bool_)
        before[: len(self._complete)] = self._complete
        self.count, self._complete = int(complete.sum()), complete
        jobs = jobs[complete & ~before]
        jct_s = (jobs["completion_ms"] - jobs["arrival_ms"]) / MS_PER_S
        return tuple(zip(jobs["template"].tolist(), jct_s.tolist(), strict=True))


def after(streams: Streams | None, seed: int | None, rng: np.random.Generator) -> Streams:
    """Streams of the episode after `streams`: those of `seed`, the next ones, or fresh ones."""
    if seed is not None:
        return Streams(seed, 0)
    if streams is None:
        return Streams(int(rng.integers(2**63)), 0)
    return Streams(streams.seed, streams.sequence + 1)


def summary(state: State, illegal_actions: int) -> dict[str, Any]:
    """Return the additional info of an episode's last step."""
    metrics = measure(state)
    return {
        "avg_jct_s": metrics.avg_jct_s,
        "jct_s": tuple(metrics.jct_s.tolist()),
        "jobs_arrived": len(metrics.jct_s),
        "jobs_completed": len(metrics.jct_s) - metrics.unfinished,
        "decisions": metrics.decisions,
        "task_events": metrics.task_events,
        "illegal_actions": illegal_actions,
    }
