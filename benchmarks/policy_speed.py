"""How fast the learned policy plays, learns and decides, against the project's targets.

    python -m benchmarks.policy_speed [--model FILE]

All times are CPU seconds of one process with one torch thread; compilation and first calls are
left out. Rollouts and updates are those of training: 32 lanes in lockstep, each with its own
Poisson sequence of 200 `tpch` jobs at 25 s on 50 executors, actions sampled. Live decisions are
`LearnedPolicy.decide` on one observation, in batches of jobs that all wait at once. Speed depends
on the number of jobs in the system, so on the policy: without `--model` it is the shipped one.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from decima.agent.scoring import Scorer
from numpy.typing import NDArray

from decima.agent.memory import GraphSorter
from decima.agent.model import load_model
from decima.agent.network import PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.recording import Recording
from decima.agent.rollout import Lanes, Rollouts, roll_out
from decima.agent.scales import Scales
from decima.policies import model_path
from decima.training.shard import BLOCK, CHUNK
from spark_sim import Cluster, Simulator, Status, Streams
from spark_sim.vector import Run
from traces import Trace, load_trace
from traces.arrays import TraceArrays, to_arrays
from traces.arrivals import batch, poisson

CLUSTER = Cluster(num_executors=50)
LANES, JOBS, MEAN_GAP_S = 32, 200, 25.0
MINIBATCHES = 4
"""parts of a pass, as in training"""
WARM_DECISIONS, TIMED_DECISIONS = 300, 400
CONCURRENT = (10, 100, 1000)

ROLLOUT_TARGET, UPDATE_TARGET = 5_000, 8_000
"""decisions per CPU second"""
LIVE_TARGET_MS, MOST_GROWTH = 1.5, 2.0
"""median at 100 concurrent jobs, and how many times that at 1,000"""
MEMORY_TARGET_MB = 2_000


def network_of(path: Path | None) -> PolicyNetwork:
    """The weights in `path`, or the shipped ones."""
    return load_model(model_path("decima") if path is None else path).network


def rollout_speed(network: PolicyNetwork, trace: Trace, arrays: TraceArrays) -> Recording:
    """Print the decisions per CPU second of `roll_out`, and what it embeds."""
    _roll(network, trace, arrays, lanes=2, jobs=3)
    began = time.process_time()
    recording = _roll(network, trace, arrays, LANES, JOBS).recording
    spent_s = time.process_time() - began
    decisions, seen = len(recording.decisions.lane), len(recording.rows.snapshot)
    snapshots = len(recording.snapshots.template)
    print(
        f"rollout      {_against(decisions / spent_s, ROLLOUT_TARGET)} decisions per CPU s"
        f"  ({decisions:,} in {spent_s:.1f} s, {seen / decisions:.1f} jobs in the system)"
    )
    print(f"  embedded   {snapshots / seen:.3f} jobs for each job seen at a decision")
    return recording


def _roll(
    network: PolicyNetwork, trace: Trace, arrays: TraceArrays, lanes: int, jobs: int
) -> Rollouts:
    runs: list[Run] = []
    for lane in range(lanes):
        streams = Streams(0, lane)
        drawn = poisson(trace, jobs, MEAN_GAP_S * 1000, streams.arrivals())
        runs.append(Run(drawn.arrival_ms, drawn.job, streams.duration_key()))
    uniform = [Streams(0, lane).actions() for lane in range(lanes)]
    return roll_out(network, Scales.of(arrays), Lanes(arrays, CLUSTER, runs, uniform))


def update_speed(network: PolicyNetwork, arrays: TraceArrays, recording: Recording) -> None:
    """Print the decisions per CPU second of one pass: scores, their loss and its gradient."""
    scorer = Scorer(network, GraphSorter(arrays), recording)
    parts = minibatches(recording.decisions.lane)
    jobs = np.cumsum(recording.decisions.num_jobs)
    first = jobs - recording.decisions.num_jobs
    seen = embedded = 0
    spent_s = 0.0
    for number, index in enumerate((parts[0], *parts)):
        began = time.process_time()
        for start in range(0, len(index), CHUNK):
            scores = scorer.score(index[start : start + CHUNK])
            loss = (scores.value.square() - scores.log_prob - scores.entropy).sum() / len(index)
            loss.backward()  # type: ignore[no-untyped-call]
        if number == 0:
            continue  # the first time is to warm up
        spent_s += time.process_time() - began
        snapshots = [recording.rows.snapshot[first[one] : jobs[one]] for one in index]
        seen += sum(map(len, snapshots))
        embedded += len(np.unique(np.concatenate(snapshots)))
    decisions = len(recording.decisions.lane)
    print(
        f"update       {_against(decisions / spent_s, UPDATE_TARGET)} decisions per CPU s and pass"
        f"  ({MINIBATCHES} minibatches)"
    )
    print(f"  embedded   {embedded / seen:.3f} jobs for each job seen at a decision")


def minibatches(lane: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Decisions in blocks of one lane, neighbours in time, the blocks shuffled."""
    order = np.argsort(lane, kind="stable")
    ends = np.flatnonzero(np.diff(lane[order])) + 1
    blocks = [
        own[start : start + BLOCK]
        for own in np.split(order, ends)
        for start in range(0, len(own), BLOCK)
    ]
    shuffled = np.random.default_rng(0).permutation(len(blocks))
    return [
        np.concatenate([blocks[one] for one in part])
        for part in np.array_split(shuffled, MINIBATCHES)
    ]


def live_speed(network: PolicyNetwork, trace: Trace, arrays: TraceArrays) -> None:
    """Print median and 95th percentile of single decisions, by the number of jobs in the system."""
    medians: dict[int, float] = {}
    for jobs in CONCURRENT:
        spent_ms = np.array([spent for spent, _ in decide(network, trace, arrays, jobs)])
        medians[jobs] = float(np.median(spent_ms))
        target = {100: LIVE_TARGET_MS, 1000: MOST_GROWTH * medians.get(100, np.nan)}.get(jobs)
        print(
            f"live         {medians[jobs]:.2f} ms median, {np.quantile(spent_ms, 0.95):.2f} ms p95"
            f" at {jobs:,} jobs"
            + ("" if target is None else f"  (target: median at most {target:.2f} ms)")
        )


def decide(
    network: PolicyNetwork, trace: Trace, arrays: TraceArrays, jobs: int
) -> Iterator[tuple[float, int]]:
    """(CPU milliseconds, jobs in the system) of decisions while at least 9 of 10 jobs wait."""
    policy = LearnedPolicy(network, arrays)
    made = 0
    for number in range(TIMED_DECISIONS):  # small batches are over soon: begin another
        streams = Streams(0, number)
        drawn = batch(trace, jobs, streams.arrivals())
        simulator = Simulator(
            arrays, CLUSTER, drawn.arrival_ms, drawn.job, duration_key=streams.duration_key()
        )
        while simulator.status is Status.DECIDE:
            seen = simulator.observation()
            if len(seen.active) < 0.9 * jobs:
                break
            began = time.process_time()
            action = policy.decide(seen)
            spent_ms = 1000 * (time.process_time() - began)
            simulator.step(action)
            made += 1
            if made > WARM_DECISIONS:
                yield spent_ms, len(seen.active)
            if made == WARM_DECISIONS + TIMED_DECISIONS:
                return


def _against(rate: float, target: int) -> str:
    return f"{rate:,.0f} (target {target:,})"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, help="a model file of `decima train`")
    path: Path | None = parser.parse_args().model
    torch.set_num_threads(1)
    network = network_of(path)
    trace = load_trace("tpch")
    arrays = to_arrays(trace)
    live_speed(network, trace, arrays)
    recording = rollout_speed(network, trace, arrays)
    update_speed(network, arrays, recording)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory  {peak_mb:,.0f} MB (target {MEMORY_TARGET_MB:,})")


if __name__ == "__main__":
    main()
