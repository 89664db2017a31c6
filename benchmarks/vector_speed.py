"""Decisions per CPU second of the vector simulator and of the Gymnasium environment.

    python -m benchmarks.vector_speed

Each simulation plays its own Poisson sequence of TPC-H-like jobs on 50 executors. The policy is as
cheap as one can be (the first open stage, the limit set to all), so that what is timed is the
simulators, the observation batch and the calls between them. Compilation and the first decisions
are left out.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from spark_sim import Cluster, Streams
from spark_sim.env import ArrivalSettings, SparkEnv
from spark_sim.vector import Run, VectorSimulator
from traces import Trace, load_trace, to_arrays
from traces.arrivals import poisson

CLUSTER = Cluster(num_executors=50)
MEAN_GAP_S = 30.0
JOBS = 300
WARM_STEPS = 400
"""steps before the clock starts: by then the number of jobs in the system has settled"""
DECISIONS = 60_000
"""decisions to time, fewer if a simulation ends before"""


class Rate(NamedTuple):
    """One row of the table."""

    label: str
    decisions: int
    jobs: float  # in the system, on average over decisions
    task_events: int
    cpu_s: float

    def __str__(self) -> str:
        return (
            f"{self.label:<22}{self.decisions:>10,}{self.jobs:>8.1f}"
            f"{self.task_events / self.decisions:>10.1f}"
            f"{self.decisions / self.cpu_s:>16,.0f}{self.task_events / self.cpu_s:>16,.0f}"
        )


def vector_rate(trace: Trace, size: int) -> Rate:
    """Steps of `size` simulations in lockstep, the batch filled before each."""
    simulators = VectorSimulator(to_arrays(trace), CLUSTER, [_run(trace, i) for i in range(size)])
    for _ in range(WARM_STEPS):
        _step(simulators)
    events = _task_events(simulators)
    decisions, jobs = 0, 0
    began_s = time.process_time()
    while decisions < DECISIONS and simulators.alive.all():
        jobs += _step(simulators)
        decisions += size
    cpu_s = time.process_time() - began_s
    events = _task_events(simulators) - events
    return Rate(f"vector, {size} at once", decisions, jobs / decisions, events, cpu_s)


def _step(simulators: VectorSimulator) -> int:
    """One decision everywhere. Returns the number of jobs in all systems."""
    batch = simulators.observation()
    simulators.step(batch.first_open_stages(), batch.num_executors)
    return int(batch.job_ptr[-1])


def _task_events(simulators: VectorSimulator) -> int:
    return sum(int(simulators.state(i).clock[0]["task_events"]) for i in range(len(simulators)))


def _run(trace: Trace, sequence: int) -> Run:
    streams = Streams(0, sequence)
    drawn = poisson(trace, JOBS, MEAN_GAP_S * 1000, streams.arrivals())
    return Run(drawn.arrival_ms, drawn.job, streams.duration_key())


def environment_rate(trace: Trace) -> Rate:
    """An episode of `SparkEnv`, after one to warm up."""
    env = SparkEnv(trace, CLUSTER, ArrivalSettings(JOBS, MEAN_GAP_S))
    episode_rate(env)
    return episode_rate(env)


def episode_rate(env: SparkEnv) -> Rate:
    """The first open slot, limit N, until the episode ends."""
    shown, _ = env.reset(seed=0)
    jobs, over = 0, False
    began_s = time.process_time()
    while not over:
        jobs += int(shown["jobs_in_system"][0])
        action = np.array([shown["action_mask"].argmax(), CLUSTER.num_executors - 1])
        shown, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    cpu_s = time.process_time() - began_s
    decisions, events = info["decisions"], info["task_events"]
    return Rate("SparkEnv", decisions, jobs / decisions, events, cpu_s)


def main() -> None:
    """Print the table."""
    trace = load_trace("tpch-like")
    print(f"{'':<22}{'decisions':>10}{'jobs':>8}{'events':>10}{'decisions':>16}{'events':>16}")
    print(f"{'':<22}{'timed':>10}{'active':>8}{'each':>10}{'per CPU s':>16}{'per CPU s':>16}")
    for size in (1, 16, 64):
        print(vector_rate(trace, size))
    print(environment_rate(trace))


if __name__ == "__main__":
    main()
