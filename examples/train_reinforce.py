"""Train a scheduling policy by REINFORCE, in one file, in about a minute.

An action is a stage and the number of executors that its job may then hold. A small network scores
each such pair by seven numbers; a softmax over the scores is the policy. The mean return of
episodes with the same jobs is the baseline. Held-out sequences give the learning curve.

    python examples/train_reinforce.py
    python examples/train_reinforce.py --seed 1 --iterations 150
"""

import argparse
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from decima import EvaluationConfig, evaluate
from decima.rl.statistics import difference_percent
from spark_sim import Cluster, ObservationBatch, Run, Streams, VectorSimulator
from traces import ARRIVALS, load_trace, to_arrays
from traces.numbers import Float64, Int64

TRACE, EXECUTORS, JOBS, GAP_S = "tpch", 10, 10, 30.0
GROUPS, MEMBERS = 4, 8  # episodes of an iteration
GROWTH = np.array([1, 2, 5])  # executors that an action may add to what the job holds
SEED = 1_000_000  # of training, plus --seed: the held-out sequences have another
SETTINGS = EvaluationConfig(TRACE, ("strict_fair",), EXECUTORS, JOBS, GAP_S, sequences=20)
trace = load_trace(TRACE)


class Episodes(NamedTuple):
    """T steps of B simulations, with C choices in all."""

    reward_s: Float64  # (T, B) minus the job-seconds since the previous step
    features: Tensor  # (C, 7)
    step: Tensor  # (C,) t * B + b, where the choice was legal
    taken: Tensor  # rows of the choices that were taken


def choices_of(observation: ObservationBatch) -> tuple[Int64, Int64, Int64, Tensor]:
    """Return stage, limit and simulation of the A legal actions, each (A,), and features (A, 7)."""
    stage = np.repeat(observation.open_stages(), len(GROWTH))
    run = np.searchsorted(observation.stage_ptr, stage, side="right") - 1
    stages, jobs = observation.stages[stage], observation.jobs[observation.stages["job"][stage]]
    limit = np.minimum(EXECUTORS, jobs["held"] + np.resize(GROWTH, len(stage)))
    share = EXECUTORS / np.diff(observation.job_ptr)[run]  # the limit of strict fair sharing
    times_ms = (jobs["remaining_ms"], stages["critical_path_ms"], stages["mean_ms"])
    columns = [np.log1p(time_ms / 1000) for time_ms in times_ms]
    columns += [stages["runnable"], jobs["held"] / share, limit / share, np.log(share)]
    return stage, limit, run, torch.tensor(np.stack(columns, 1), dtype=torch.float32)


@torch.no_grad()
def play(network: nn.Module, runs: list[Run], rng: np.random.Generator | None = None) -> Episodes:
    """Play all runs to their end, greedily if there is no `rng`."""
    simulators = VectorSimulator(to_arrays(trace), Cluster(num_executors=EXECUTORS), runs)
    parts: list[tuple[Float64, Tensor, Tensor, Tensor]] = []
    before = 0  # choices of earlier steps
    while simulators.alive.any():
        stage, limit, run, inputs = choices_of(simulators.observation())
        # The largest score plus Gumbel noise is a draw from the softmax.
        noise = 0.0 if rng is None else rng.gumbel(size=len(run))
        order = np.lexsort((network(inputs)[:, 0].numpy() + noise, run))
        best = order[np.diff(run[order], append=-1) != 0]  # the last of each run
        stages, limits = np.full((2, len(runs)), -1)  # -1 passes
        stages[run[best]], limits[run[best]] = stage[best], limit[best]
        reward_s = simulators.step(stages, limits).reward_s
        step = torch.tensor(run + len(runs) * len(parts))
        parts.append((reward_s, inputs, step, torch.tensor(best + before)))
        before += len(run)
    rewards_s, *tensors = zip(*parts, strict=True)
    return Episodes(np.array(rewards_s), *map(torch.cat, tensors))


def loss_of(network: nn.Module, played: Episodes) -> Tensor:
    r"""Return - mean over episodes of sum_t (G_t - baseline_t) log p(action_t)."""
    returns_s = played.reward_s[::-1].cumsum(0)[::-1].reshape(-1, GROUPS, MEMBERS)
    gain = (returns_s - returns_s.mean(2, keepdims=True)).flatten()
    weight = torch.tensor(gain / gain.std(), dtype=torch.float32)[played.step[played.taken]]
    scores: Tensor = network(played.features)[:, 0]
    totals = torch.zeros(len(gain)).index_add(0, played.step, scores.exp())
    log = (scores - totals.log()[played.step])[played.taken]
    return -(log * weight).sum() / (GROUPS * MEMBERS)


def run_of(seed: int, sequence: int) -> Run:
    """Draw the arrivals and durations that `evaluate` draws."""
    streams = Streams(seed, sequence)
    drawn = ARRIVALS["poisson"](trace, JOBS, 1000 * GAP_S, streams.arrivals())
    return Run(drawn.arrival_ms, drawn.job, streams.duration_key())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=100)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    rng = np.random.default_rng(given.seed)
    network = nn.Sequential(nn.Linear(7, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    held_out = [run_of(SETTINGS.seed, number) for number in range(SETTINGS.sequences)]
    fair_s = evaluate(SETTINGS).reference.avg_jct_s
    print("iteration  average JCT  against strict_fair [95 %]")
    for iteration in range(given.iterations + 1):
        if iteration % 10 == 0 or iteration == given.iterations:
            avg_s = -play(network, held_out).reward_s.sum(0) / JOBS
            difference = difference_percent(avg_s, fair_s).words("+.1f", " %")
            print(f"{iteration:>9}{avg_s.mean():>11.1f} s  {difference}", flush=True)
        groups = [run_of(SEED + given.seed, GROUPS * iteration + group) for group in range(GROUPS)]
        loss = loss_of(network, play(network, [r for r in groups for _ in range(MEMBERS)], rng))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()


if __name__ == "__main__":
    main()
