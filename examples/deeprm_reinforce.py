"""DeepRM in one file: the cluster, the network, and REINFORCE with the paper's baseline.

Jobs arrive for 50 steps and need units of two resources for some steps. The policy sees an image of
the cluster and of ten waiting jobs, and picks one of them or lets a step pass. It is rewarded with
minus the sum of 1 / duration over the jobs in the system, so an episode adds up to minus the sum of
slowdowns. The numbers are those of Mao et al., HotNets 2016, as `deeprm.config.PAPER` has them.

    python examples/deeprm_reinforce.py
    python examples/deeprm_reinforce.py --load 1.1 --iterations 1000 --job-sets 100 --episodes 20
"""

import argparse
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RESOURCES, CAPACITY = 2, 20  # units of each resource
HORIZON, SLOTS, BACKLOG = 20, 10, 60  # steps ahead, jobs that can be picked, jobs counted beyond
ARRIVAL_STEPS, CHANCES, MAX_STEPS = 50, 3, 300
SMALL_SHARE, SMALL, LARGE = 0.8, (1, 3), (10, 15)  # steps that a job lasts
DOMINANT, OTHER = (5, 10), (1, 2)  # units of the resource that a job needs most, and of the other
MEAN_WORK = (SMALL_SHARE * 2.0 + (1 - SMALL_SHARE) * 12.5) * (7.5 + 1.5) / RESOURCES / CAPACITY
VOID, EMPTY = 0, -1


class Jobs(NamedTuple):
    """S job sets, padded to J jobs in the order of arrival."""

    number: Ints  # (S,)
    arrival: Ints  # (S, J) step; MAX_STEPS beyond `number`
    duration: Ints  # (S, J) steps
    demand: Ints  # (S, J, RESOURCES) units


def draw_jobs(rng: np.random.Generator, sets: int, load: float) -> Jobs:
    """Draw job sets of which each step has three chances of an arrival."""
    most = ARRIVAL_STEPS * CHANCES
    arrived = rng.random((sets, ARRIVAL_STEPS, CHANCES)) < load / MEAN_WORK / CHANCES
    arrived[~arrived.any((1, 2)), 0, 0] = True  # a set has a job at least
    when = np.where(arrived, np.arange(ARRIVAL_STEPS)[:, None], MAX_STEPS).reshape(sets, most)
    size = (sets, most)
    is_small = rng.random(size) < SMALL_SHARE
    short = rng.integers(*SMALL, size, endpoint=True)
    duration = np.where(is_small, short, rng.integers(*LARGE, size, endpoint=True))
    demand = rng.integers(*OTHER, (*size, RESOURCES), endpoint=True)
    dominant = rng.integers(RESOURCES, size=size)[..., None]
    needed = rng.integers(*DOMINANT, (*size, 1), endpoint=True)
    np.put_along_axis(demand, dominant, needed, axis=2)
    number = arrived.sum((1, 2))
    return Jobs(number, np.sort(when, axis=1), duration, demand)


# --- the environment: E episodes in lockstep ------------------------------------------------------


class Cluster:
    """E episodes, each on one of the job sets; `step` takes an action for each."""

    def __init__(self, jobs: Jobs, set_of: Ints) -> None:
        self.jobs = Jobs(*(column[set_of] for column in jobs))
        self.episodes = np.arange(len(set_of))
        most = self.jobs.arrival.shape[1]
        self.time = np.zeros(len(set_of), np.int64)
        self.start = np.full((len(set_of), most), EMPTY)  # step at which a job starts
        self.used = np.zeros((len(set_of), HORIZON, RESOURCES), np.int64)
        self.slot = np.full((len(set_of), SLOTS), EMPTY)  # the job that waits there
        self.entered = np.zeros(len(set_of), np.int64)  # jobs that have come into a slot
        self.earned = np.zeros(len(set_of))
        self._fill()
        self._pass_until_a_job_waits()

    def done(self) -> Bools:
        """(E,) whether all jobs are complete, or the time is up."""
        end = np.where(self.start == EMPTY, MAX_STEPS, self.start + self.jobs.duration)
        exists = self.jobs.arrival < MAX_STEPS
        return np.asarray((np.where(exists, end, 0).max(1) <= self.time) | (self.time >= MAX_STEPS))

    def step(self, action: Ints) -> Floats:
        """Act; (E,) rewards of the time that passed. Episodes that are done stay as they are."""
        before, going = self.earned.copy(), ~self.done()
        job = np.where(action == VOID, EMPTY, self.slot[self.episodes, action - 1])
        wait = np.where(going & (job != EMPTY), self._wait(job), HORIZON)
        for e in np.nonzero(wait < HORIZON)[0]:
            steps = slice(wait[e], wait[e] + self.jobs.duration[e, job[e]])
            self.used[e, steps] += self.jobs.demand[e, job[e]]
            self.start[e, job[e]] = self.time[e] + wait[e]
            self.slot[e, action[e] - 1] = EMPTY
        self._pass(going & (wait == HORIZON))
        self._fill()
        self._pass_until_a_job_waits()
        return np.asarray(self.earned - before)

    def _wait(self, job: Ints) -> Ints:
        """(E,) steps until the job's units are free until it ends; HORIZON if that is too late."""
        duration = self.jobs.duration[self.episodes, job]
        needed = self.used + self.jobs.demand[self.episodes, job][:, None]
        free = needed.max(2) <= CAPACITY  # (E, HORIZON)
        wait = np.full(len(job), HORIZON)
        for first in range(HORIZON - 1, -1, -1):
            fits = np.cumsum(~free[:, first:], axis=1)  # busy steps from `first` on
            last = first + duration - 1
            is_free = fits[self.episodes, np.minimum(duration, HORIZON - first) - 1] == 0
            wait[is_free & (last < HORIZON)] = first
        return wait

    def _pass(self, which: Bools) -> None:
        """Let one step of time pass in some episodes, and charge it."""
        arrived = self.jobs.arrival <= self.time[:, None]
        end = np.where(self.start == EMPTY, MAX_STEPS, self.start + self.jobs.duration)
        in_system = arrived & (end > self.time[:, None])
        self.earned -= np.where(which, (in_system / self.jobs.duration).sum(1), 0.0)
        self.used[which] = np.pad(self.used[which, 1:], ((0, 0), (0, 1), (0, 0)))
        self.time[which] += 1

    def _fill(self) -> None:
        """Let jobs that have come into empty slots, the first slot first."""
        arrived = (self.jobs.arrival <= self.time[:, None]).sum(1)
        for slot in range(SLOTS):
            enters = (self.slot[:, slot] == EMPTY) & (self.entered < arrived)
            self.slot[enters, slot] = self.entered[enters]
            self.entered[enters] += 1

    def _pass_until_a_job_waits(self) -> None:
        while (idle := (self.slot == EMPTY).all(1) & ~self.done()).any():
            self._pass(idle)
            self._fill()

    def image(self) -> Tensor:
        """(E, inputs) what the policy sees: units in use, waiting jobs, a count of the others."""
        pairs = self.used.reshape(len(self.time), HORIZON, RESOURCES, 1)
        cells = np.clip(pairs - 2 * np.arange(CAPACITY // 2), 0, 2) / 2  # two units in a cell
        row, column = np.arange(HORIZON)[:, None, None], np.arange(DOMINANT[1])
        job = np.maximum(self.slot, 0)
        lasts = np.take_along_axis(self.jobs.duration, job, 1)[:, None, :, None, None]
        needs = np.take_along_axis(self.jobs.demand, job[..., None], 1)[:, None, ..., None]
        is_filled = (self.slot != EMPTY)[:, None, :, None, None]
        waiting = is_filled & (row[..., None] < lasts) & (column < needs)
        behind = (self.jobs.arrival <= self.time[:, None]).sum(1) - self.entered
        beyond = np.arange(BACKLOG) < behind[:, None]
        parts = [part.reshape(len(self.time), -1) for part in (cells, waiting, beyond)]
        return torch.from_numpy(np.concatenate(parts, axis=1).astype(np.float32))


# --- learning -------------------------------------------------------------------------------------


def new_policy() -> nn.Sequential:
    """The paper's network: one hidden layer of 20 units."""
    inputs = HORIZON * RESOURCES * (CAPACITY // 2 + SLOTS * DOMINANT[1]) + BACKLOG
    return nn.Sequential(nn.Linear(inputs, 20), nn.ReLU(), nn.Linear(20, SLOTS + 1))


class Episodes(NamedTuple):
    """K rounds of E episodes."""

    seen: list[Tensor]  # (E, inputs) each
    action: list[Tensor]  # (E,) each
    alive: Bools  # (K, E) whether the episode was under way
    reward: Floats  # (K, E)
    slowdown: Floats  # (E,) mean over its jobs


@torch.no_grad()
def play(policy: nn.Module, jobs: Jobs, set_of: Ints, generator: torch.Generator) -> Episodes:
    """Draw the policy's actions until every episode is done."""
    cluster = Cluster(jobs, set_of)
    played, taken, alive, reward = [], [], [], []
    while (going := ~cluster.done()).any():
        image = cluster.image()
        chance = policy(image).softmax(1)
        action = torch.multinomial(chance, 1, generator=generator)[:, 0]
        alive.append(going)
        played.append(image)
        taken.append(action)
        reward.append(cluster.step(action.numpy()))
    slowdown = -cluster.earned / cluster.jobs.number
    return Episodes(played, taken, np.stack(alive), np.stack(reward), slowdown)


def update(
    policy: nn.Module, optimiser: torch.optim.Optimizer, played: Episodes, group: int
) -> None:
    """One step of REINFORCE; the baseline is the mean return of a job set at the same action."""
    returns = played.reward[::-1].cumsum(0)[::-1]
    mean = returns.reshape(len(returns), -1, group).mean(2).repeat(group, axis=1)
    advantage = torch.from_numpy((returns - mean) * played.alive).float()
    optimiser.zero_grad()
    for image, action, gain in zip(played.seen, played.action, advantage, strict=True):
        log_prob = policy(image).log_softmax(1).gather(1, action[:, None])[:, 0]
        torch.autograd.backward(-(gain * log_prob).sum() / int(played.alive.sum()))
    optimiser.step()


def main() -> None:
    """Train, and print the slowdown of held-out job sets on the way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--load", type=float, default=0.7, help="0.7 is 70 %%")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--job-sets", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=10, help="on each job set")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    rng, generator = (
        np.random.default_rng(options.seed),
        torch.Generator().manual_seed(options.seed),
    )
    jobs = draw_jobs(rng, options.job_sets, options.load)
    held_out = draw_jobs(np.random.default_rng(10**6), 50, options.load)
    policy = new_policy()
    optimiser = torch.optim.RMSprop(policy.parameters(), lr=1e-3, alpha=0.9)
    set_of = np.repeat(np.arange(options.job_sets), options.episodes)
    print("iteration  slowdown of held-out job sets")
    for iteration in range(options.iterations + 1):
        if iteration % 10 == 0 or iteration == options.iterations:
            slowdown = play(policy, held_out, np.arange(50), generator).slowdown
            error = 1.96 * slowdown.std(ddof=1) / np.sqrt(len(slowdown))
            print(f"{iteration:9d}  {slowdown.mean():.3f} +- {error:.3f}", flush=True)
        if iteration < options.iterations:
            played = play(policy, jobs, set_of, generator)
            update(policy, optimiser, played, options.episodes)


if __name__ == "__main__":
    main()
