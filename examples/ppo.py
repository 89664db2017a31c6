"""Train a scheduler by PPO on the Gymnasium environment, in one file, in a few minutes.

A small network scores every stage that may be chosen by numbers of the stage, its job and the
cluster, and the executors that the job may get for it. Rewards are minus the job-seconds, so the
return is minus the total time of the jobs. Jobs come from a CSV file (docs/trace-format.md); the
comparison at the end plays sequences that no training has seen.

    python examples/ppo.py
    python examples/ppo.py --jobs my_jobs.csv --executors 20 --gap 8 --minutes 5
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from decima import EvaluationConfig, evaluate
from spark_sim import Cluster
from spark_sim.env import ArrivalSettings, SparkEnv
from spark_sim.vector_env import SparkVectorEnv
from traces import read_csv

ENVS, STEPS, EPOCHS, MINIBATCHES = 32, 128, 3, 4
LEARNING_RATE, GAMMA, LAMBDA, CLIP, ENTROPY = 4e-4, 0.995, 0.95, 0.2, 0.003
JOBS, SEQUENCES, TEST_SEED = 30, 20, 1_000_000
OF_STAGE = ("stage_demand", "stage_task_s", "stage_critical_path_s", "stage_runnable")
OF_JOB = ("job_age_s", "job_work_s", "job_remaining_s", "job_held", "job_local", "job_share")
OF_CLUSTER = ("on_offer", "jobs_in_system", "fair_share")


class Inputs(NamedTuple):
    """B observations with S stage slots."""

    stage: Tensor  # (B, S, F) features of each stage, its job and the cluster
    legal: Tensor  # (B, S) which may be chosen
    state: Tensor  # (B, V) features of the whole, for the value


def inputs_of(observation: dict[str, np.ndarray]) -> Inputs:
    """What the agent sees of scaled observations."""
    job = (observation["stage_job"] * observation["job_mask"].shape[1]).round().astype(int) - 1
    jobs = np.stack([observation[name] for name in OF_JOB], 2)
    cluster = np.concatenate([observation[name] for name in OF_CLUSTER], 1)
    columns = [observation[name] for name in OF_STAGE]
    columns += [*np.moveaxis(np.take_along_axis(jobs, np.maximum(job, 0)[..., None], 1), 2, 0)]
    columns += [np.broadcast_to(column[:, None], job.shape) for column in cluster.T]
    state = np.concatenate([cluster, jobs.sum(1)], 1)
    return Inputs(
        torch.from_numpy(4 * np.stack(columns, 2).astype(np.float32)),
        torch.from_numpy(observation["action_mask"][:, :-1] > 0),
        torch.from_numpy(state.astype(np.float32)),
    )


class Agent(nn.Module):
    """Scores of stages and limits, and the value of an observation."""

    def __init__(self, executors: int) -> None:
        super().__init__()
        features, whole = len(OF_STAGE + OF_JOB + OF_CLUSTER), len(OF_JOB + OF_CLUSTER)
        self.body = nn.Sequential(nn.Linear(features, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.stage, self.limit = nn.Linear(64, 1), nn.Linear(64, executors)
        self.value = nn.Sequential(nn.Linear(whole, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(
        self, inputs: Inputs, action: Tensor | None = None, greedy: bool = False
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Actions (B, 2), their log-probabilities, entropies and values, each (B,)."""
        legal = inputs.legal.clone()
        legal[:, 0] |= ~legal.any(1)  # nothing may be chosen: what is chosen counts for nothing
        hidden = self.body(inputs.stage[legal])
        scores = torch.full(legal.shape, -1e9).masked_scatter(legal, self.stage(hidden))
        stages = Categorical(logits=scores)
        if action is None:
            stage = scores.argmax(1) if greedy else stages.sample()
        else:
            stage = action[:, 0]
        row = (legal.flatten().cumsum(0) - 1).view_as(legal)[torch.arange(len(stage)), stage]
        limits = Categorical(logits=self.limit(hidden[row]))
        if action is None:
            limit = limits.logits.argmax(1) if greedy else limits.sample()
        else:
            limit = action[:, 1]
        value = self.value(inputs.state).squeeze(1)
        log_prob = stages.log_prob(stage) + limits.log_prob(limit)
        return torch.stack((stage, limit), 1), log_prob, stages.entropy() + limits.entropy(), value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=Path, default=Path("docs/examples/nightly.csv"))
    parser.add_argument("--executors", type=int, default=20)
    parser.add_argument("--gap", type=float, default=35.0, help="mean time between jobs in s")
    parser.add_argument("--minutes", type=float, default=2.5, help="of training, one core")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    trace = read_csv(arguments.jobs)
    settings = {
        "trace": trace,
        "cluster": Cluster(num_executors=arguments.executors),
        "arrivals": ArrivalSettings(JOBS, arguments.gap),
        "max_stages": 64,
        "limits": "relative",
        "scaled": True,
        "illegal": "pass",
    }
    envs = SparkVectorEnv(ENVS, **settings)
    agent = Agent(arguments.executors)
    optimizer = torch.optim.Adam(agent.parameters(), LEARNING_RATE, eps=1e-5)
    inputs = inputs_of(envs.reset(seed=arguments.seed)[0])
    done = np.zeros(ENVS, bool)  # the next step begins an episode: its action counts for nothing
    begin_s = time.process_time()
    scale = None
    iteration, finished = 0, []
    while (spent := (time.process_time() - begin_s) / 60) < arguments.minutes:
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - spent / arguments.minutes)
        rows = []
        for _ in range(STEPS):
            with torch.no_grad():
                action, log_prob, _, value = agent(inputs)
            began = done
            shown, reward, terminated, truncated, infos = envs.step(action.numpy())
            done = terminated | truncated
            finished += infos["avg_jct_s"][done].tolist() if done.any() else []
            kept = (*inputs, action, log_prob, value)
            rows.append((*kept, *map(torch.from_numpy, (reward, done, began))))
            inputs = inputs_of(shown)
        *played, values, rewards, ends, begins = map(torch.stack, zip(*rows, strict=True))
        scale = rewards.abs().mean() / (1 - GAMMA) if scale is None else scale
        with torch.no_grad():
            next_value = agent(inputs)[3]
        advantage = torch.zeros(STEPS, ENVS)
        later = torch.zeros(ENVS)
        for step in reversed(range(STEPS)):
            later_counts = GAMMA * (~ends[step]).float()
            delta = rewards[step].float() / scale + later_counts * next_value - values[step]
            later = delta + LAMBDA * later_counts * later
            advantage[step], next_value = later, values[step]
        stage, legal, state, actions, log_probs = (part.flatten(0, 1) for part in played)
        used = (~begins.flatten() & legal.any(1)).nonzero().flatten()
        returns, advantage = (advantage + values).flatten(), advantage.flatten()
        for _ in range(EPOCHS):
            for batch in used[torch.randperm(len(used))].chunk(MINIBATCHES):
                seen = Inputs(stage[batch], legal[batch], state[batch])
                _, log_prob, entropy, value = agent(seen, actions[batch])
                ratio = (log_prob - log_probs[batch]).exp()
                gain = (advantage[batch] - advantage[batch].mean()) / advantage[batch].std()
                clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                loss = -torch.min(ratio * gain, clipped * gain).mean() - ENTROPY * entropy.mean()
                loss = loss + 0.5 * (value - returns[batch]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        iteration += 1
        if iteration % 20 == 0:
            steps = iteration * STEPS * ENVS
            print(f"{steps:8d} steps, {spent:4.1f} min: average JCT {np.mean(finished):.1f} s")
            finished = []

    env = SparkEnv(**settings)
    jct_s = []
    for sequence in range(SEQUENCES):
        shown, _ = env.reset(seed=TEST_SEED if sequence == 0 else None)
        over = False
        while not over:
            with torch.no_grad():
                seen = inputs_of({name: values[None] for name, values in shown.items()})
                action = agent(seen, greedy=True)[0][0].numpy()
            shown, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        jct_s.append(info["avg_jct_s"])
    config = EvaluationConfig(
        str(arguments.jobs), ("strict_fair",), arguments.executors, JOBS, arguments.gap,
        sequences=SEQUENCES, seed=TEST_SEED,
    )  # fmt: skip
    fair_s = evaluate(config).policies["strict_fair"].avg_jct_s
    percent = 100 * (np.mean(jct_s) / np.mean(fair_s) - 1)
    print(
        f"{SEQUENCES} unseen sequences: {np.mean(jct_s):.1f} s, strict fair {np.mean(fair_s):.1f} s"
    )
    print(f"{percent:+.1f} %, lower in {np.sum(jct_s < fair_s)} of them")


if __name__ == "__main__":
    main()
