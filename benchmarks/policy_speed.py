"""Speed of the learned policy when it plays, learns and decides, against the project's targets.

    python -m benchmarks.policy_speed [--model FILE]

All times are CPU seconds of one process with one torch thread; compilation and first calls are
left out. Rollouts and updates are those of the step `reinforce`: 32 lanes in lockstep, each with
its own Poisson sequence of 200 `tpch` jobs at 25 s on 50 executors, plans drawn. A decision is one
choice, as the simulator counts them; a plan makes several. Live decisions are
`LearnedPolicy.decide` on one observation, in batches of jobs that all wait at once: the first of a
scheduling event plans them all. Speed depends on the number of jobs in the system, so on the
policy: without `--model` it is the shipped one, and `--model new` is one with random weights.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from decima.agent import plan_probabilities
from decima.agent.graph import GraphSorter
from decima.agent.model import load_model
from decima.agent.network import PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.rollout import Lanes, play_out
from decima.agent.scales import Scales
from decima.evaluation.config import EvaluationConfig, gap_at
from decima.objectives import AVG_JCT, OBJECTIVES
from decima.policy_names import model_path
from decima.training.config import config_from
from decima.training.credit import Reference
from decima.training.episodes import Episode, Setting
from decima.training.gradients import BLOCK, CHUNK
from decima.training.play import Player, Rollouts
from spark_sim import Cluster, Protocol, Simulator, Status, Streams
from spark_sim.vector import Run
from tests.networks import random_network
from traces import Trace, load_trace
from traces.arrays import TraceArrays, to_arrays
from traces.arrivals import batch, poisson

CLUSTER = Cluster(num_executors=50)
LANES, JOBS, MEAN_GAP_S = 32, 200, 25.0
MINIBATCHES = 4
"""parts of a pass"""
WARM_DECISIONS, TIMED_DECISIONS = 300, 400
CONCURRENT = (10, 100, 1000)
PLAN_JOBS, PLAN_SLOTS, PLANS = 500, 1_000, 40
SESSION_JOBS, SESSION_SLOTS, SESSION_LOAD = 150, 96, 0.9
SESSION_SEQUENCES = 10
"""as many as `decima evaluate` plays side by side by default"""

ROLLOUT_TARGET, UPDATE_TARGET = 20_000, 50_000
"""decisions per CPU second"""
LIVE_TARGET_MS = {100: 0.5, 1000: 1.5}
"""median, by concurrent jobs"""
PLAN_TARGET_MS, SESSION_TARGET_S = 20.0, 2.0
MEMORY_TARGET_MB = 2_000


class Timed(NamedTuple):
    """One call of `decide`."""

    spent_ms: float
    has_planned: bool


def network_of(model: str | None) -> PolicyNetwork:
    """The weights in the file `model`, random ones, or the shipped ones."""
    if model == "new":
        return random_network()
    return load_model(model_path("decima" if model is None else model)).network


def rollout_speed(network: PolicyNetwork, trace: Trace, arrays: TraceArrays) -> Rollouts:
    """Print the decisions per CPU second of a rollout that an update can follow."""
    _roll(network, trace, arrays, lanes=2, jobs=3)
    began = time.process_time()
    batch = _roll(network, trace, arrays, LANES, JOBS)
    spent_s = time.process_time() - began
    made = _decisions(batch)
    mean_jobs = batch.recording.decisions.num_jobs.mean()
    print(
        f"rollout      {_against(made / spent_s, ROLLOUT_TARGET)} decisions per CPU s, "
        f"{len(batch.advantage) / spent_s:,.0f} plans"
        f"  ({made:,} in {spent_s:.1f} s, {mean_jobs:.1f} jobs in the system)"
    )
    return batch


def _roll(
    network: PolicyNetwork, trace: Trace, arrays: TraceArrays, lanes: int, jobs: int
) -> Rollouts:
    config = config_from({"credit": {"baseline": "none"}, "reinforce": {"rollouts": 1}})
    setting = Setting(0, EvaluationConfig(executors=CLUSTER.num_executors))
    episodes: list[Episode] = []
    for lane in range(lanes):
        streams = Streams(0, lane)
        drawn = poisson(trace, jobs, MEAN_GAP_S * 1000, streams.arrivals())
        run = Run(drawn.arrival_ms, drawn.job, streams.duration_key())
        episodes.append(Episode(setting, lane, run))
    player = Player(config, arrays, GraphSorter(arrays), OBJECTIVES[AVG_JCT])
    batch = player.rollouts(network, episodes, 0.0, Reference(60.0, 3.0))
    if batch is None:
        raise RuntimeError("the rollouts held no decision")
    return batch


def _decisions(batch: Rollouts) -> int:
    return int(batch.recording.plans.used.sum())


def update_speed(network: PolicyNetwork, arrays: TraceArrays, batch: Rollouts) -> None:
    """Print the decisions per CPU second of one pass: scores, their loss and its gradient."""
    sorter, recording = GraphSorter(arrays), batch.recording
    parts = minibatches(recording.decisions.lane)
    spent_s = 0.0
    for number, index in enumerate((parts[0], *parts)):
        began = time.process_time()
        for start in range(0, len(index), CHUNK):
            chunk = index[start : start + CHUNK]
            graph = recording.graph(chunk, sorter)
            plans, _ = recording.plans_of(chunk)
            scores = network(graph)
            taken = plan_probabilities.taken(scores, graph, plans)
            total = scores.value.square().sum() - (taken.log_prob + taken.entropy).sum()
            (total / len(index)).backward()
        if number > 0:  # the first time is to warm up
            spent_s += time.process_time() - began
    print(
        f"update       {_against(_decisions(batch) / spent_s, UPDATE_TARGET)} decisions per CPU s "
        f"and pass, {len(batch.advantage) / spent_s:,.0f} plans  ({MINIBATCHES} minibatches)"
    )


def minibatches(lane: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Decisions in blocks of one lane, neighbours in time, the blocks shuffled."""
    order = np.argsort(lane, kind="stable")
    ends = np.flatnonzero(np.diff(lane[order])) + 1
    blocks = [
        of_group[start : start + BLOCK]
        for of_group in np.split(order, ends)
        for start in range(0, len(of_group), BLOCK)
    ]
    shuffled = np.random.default_rng(0).permutation(len(blocks))
    return [
        np.concatenate([blocks[block] for block in part])
        for part in np.array_split(shuffled, MINIBATCHES)
    ]


def live_speed(network: PolicyNetwork, trace: Trace, arrays: TraceArrays) -> None:
    """Print median and 95th percentile of single decisions, by the number of jobs in the system."""
    for jobs in CONCURRENT:
        decisions = list(decide(network, trace, arrays, CLUSTER, jobs))
        spent_ms = np.array([decision.spent_ms for decision in decisions])
        planning = np.array([decision.spent_ms for decision in decisions if decision.has_planned])
        target = LIVE_TARGET_MS.get(jobs)
        print(
            f"live         {np.median(planning):.2f} ms median, "
            f"{np.quantile(planning, 0.95):.2f} ms p95 of those that plan, "
            f"{spent_ms.mean():.2f} ms mean of all, at {jobs:,} jobs"
            + ("" if target is None else f"  (target: median at most {target:.2f} ms)")
        )


def decide(
    network: PolicyNetwork, trace: Trace, arrays: TraceArrays, cluster: Cluster, jobs: int
) -> Iterator[Timed]:
    """Decisions while at least 9 of 10 jobs wait."""
    policy = LearnedPolicy(network, arrays)
    made = 0
    for number in range(TIMED_DECISIONS):  # small batches are over soon: begin another
        streams = Streams(0, number)
        drawn = batch(trace, jobs, streams.arrivals())
        simulator = Simulator(
            arrays, cluster, drawn.arrival_ms, drawn.job, duration_key=streams.duration_key()
        )
        while simulator.status is Status.DECIDE:
            observation = simulator.observation()
            if len(observation.active) < 0.9 * jobs:
                break
            before = policy.planned
            began = time.process_time()
            action = policy.decide(observation)
            spent_ms = 1000 * (time.process_time() - began)
            simulator.step(action)
            made += 1
            if made > WARM_DECISIONS:
                yield Timed(spent_ms, policy.planned is not before)
            if made == WARM_DECISIONS + TIMED_DECISIONS:
                return


def plan_speed(network: PolicyNetwork, trace: Trace, arrays: TraceArrays) -> None:
    """Print the time of a whole plan in a large session, with all its choices."""
    cluster = Cluster(num_executors=PLAN_SLOTS, protocol=Protocol.SESSION)
    policy = LearnedPolicy(network, arrays)
    streams = Streams(0, 0)
    drawn = batch(trace, PLAN_JOBS, streams.arrivals())
    simulator = Simulator(
        arrays, cluster, drawn.arrival_ms, drawn.job, duration_key=streams.duration_key()
    )
    whole: list[float] = []
    choices: list[int] = []
    last_round = -1
    while simulator.status is Status.DECIDE and len(whole) <= PLANS:
        observation = simulator.observation()
        if observation.round_number != last_round:
            whole.append(0.0)
            choices.append(0)
            last_round = observation.round_number
        began = time.process_time()
        action = policy.decide(observation)
        whole[-1] += 1000 * (time.process_time() - began)
        choices[-1] += 1
        simulator.step(action)
    later = np.array(whole[1:-1])
    print(
        f"whole plan   {np.median(later):.1f} ms median, {later.max():.1f} ms at most, the first "
        f"{whole[0]:.1f} ms, {np.mean(choices[1:-1]):.0f} choices  ({PLAN_JOBS} jobs on "
        f"{PLAN_SLOTS:,} slots; target {PLAN_TARGET_MS:.0f} ms)"
    )


def session_speed(network: PolicyNetwork, trace: Trace, arrays: TraceArrays) -> None:
    """Print what evaluating a sequence in a session takes, alone and beside others."""
    cluster = Cluster(num_executors=SESSION_SLOTS, protocol=Protocol.SESSION)
    gap_ms = 1000 * gap_at("tpch", SESSION_SLOTS, SESSION_LOAD)
    for jobs, sequences in ((1, 1), (SESSION_JOBS, 1), (SESSION_JOBS, SESSION_SEQUENCES)):
        runs: list[Run] = []
        for number in range(sequences):
            streams = Streams(0, number)
            drawn = poisson(trace, jobs, gap_ms, streams.arrivals())
            runs.append(Run(drawn.arrival_ms, drawn.job, streams.duration_key()))
        played = play_out(network, Scales.of(arrays), Lanes(arrays, cluster, runs, None))
        if jobs == 1:  # to warm up
            continue
        spent_s = (played.policy_cpu_s + played.environment_cpu_s) / sequences
        made = sum(int(state.clock[0]["decisions"]) for state in played.states) / sequences
        print(
            f"session      {spent_s:.1f} CPU s a sequence of {SESSION_JOBS} jobs on "
            f"{SESSION_SLOTS} slots, {made:,.0f} decisions, {sequences} in lockstep  "
            f"(target {SESSION_TARGET_S:.0f} s)"
        )


def _against(rate: float, target: int) -> str:
    return f"{rate:,.0f} (target {target:,})"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help='a model file of `decima train`, or "new"')
    model: str | None = parser.parse_args().model
    torch.set_num_threads(1)
    network = network_of(model)
    trace = load_trace("tpch")
    arrays = to_arrays(trace)
    live_speed(network, trace, arrays)
    plan_speed(network, trace, arrays)
    session_speed(network, trace, arrays)
    batch = rollout_speed(network, trace, arrays)
    update_speed(network, arrays, batch)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory  {peak_mb:,.0f} MB (target {MEMORY_TARGET_MB:,})")


if __name__ == "__main__":
    main()
