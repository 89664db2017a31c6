"""Episodes played to learn from: by the policy itself, or with a heuristic that teaches.

A policy's own episodes give what was seen and done, and how much better it was than expected. A
heuristic teaches by its own actions or by the costs of all actions. Imitation is the supervised
warm start of the released code (`pg_su.py`). Branches go further: at some decisions of a policy
every allowed action is tried in the simulator, on the same arrivals, and the heuristic plays to the
end. So the costs of actions differ by the action alone, and a policy that lowers its expected cost
becomes better than the heuristic: one step of policy iteration.

Letters: S job sets, N episodes of each, E = S N episodes, K rounds of the longest, Q decisions of
all episodes, n tried ones, A actions.

Source of branches: Bertsekas and Castanon, Journal of Heuristics 5, 1999.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from decima.rl.baselines import TimedReturns, mean_baseline
from decima.rl.study.lockstep import joined, play
from decima.rl.study.streams import Draws
from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.network import Frozen, Input
from deeprm.objectives import Objective
from deeprm.schedulers import Learned, Scheduler
from deeprm.tables import Bool, Float64, Int32, Int64, Jobs, State

SHARE = 0.2
"""of the decisions that are tried; those that follow each other are much alike"""


class Rollouts(NamedTuple):
    """Q decisions of E episodes, in the order in which they were taken."""

    inputs: Input
    """(Q, ...) of the network"""
    action: Int32
    """(Q,)"""
    advantage: Float64
    """(Q,) return from here on, less the mean over all episodes of the job set"""
    reward: Float64
    """(S, N) total of each episode"""


def roll_out(
    network: Frozen,
    episodes: Episodes,
    draws: Draws,
    objective: Objective,
    size: int,
    baseline: Literal["step", "time"],
    discount: float = 1.0,
) -> Rollouts:
    """Play all episodes, and return the advantage of each action.

    Args:
        network: the policy, which chooses the actions.
        episodes: E episodes, at their beginning; each N in a row are of one job set.
        draws: of the choices.
        objective: what is rewarded.
        size: N.
        baseline: episodes of a set are compared after the same number of actions ("step", the
            paper's figure 3; one that is over has return 0 then), or at the same "time".
        discount: gamma of the returns, for each step of time.
    """
    scheduler = Learned(network)
    inputs: list[Input] = []
    actions: list[Int32] = []
    costs: list[Int64] = []
    acting: list[Int32] = []
    """of each round the episodes that are not over"""
    times = [episodes.state.time.copy()]
    rows = episodes.under_way()
    while len(rows) > 0:
        actions.append(scheduler.choose(episodes, rows, draws))
        inputs.append(scheduler.inputs)
        acting.append(rows)
        cost, over = episodes.step(rows, actions[-1])
        costs.append(cost)
        times.append(episodes.state.time.copy())
        rows = rows[~over]

    # (K, E) reward from each action to the end of its episode; 0 after that.
    time = np.stack(times)
    returns = np.zeros((len(acting), len(episodes)))
    for k, rows in enumerate(acting):
        returns[k, rows] = objective.reward(episodes.config, costs[k])
    factor = np.power(discount, np.diff(time, axis=0))
    for k in range(len(returns) - 1, 0, -1):
        returns[k - 1] += factor[k - 1] * returns[k]

    expected = np.empty_like(returns)
    counts = np.bincount(np.concatenate(acting), minlength=len(episodes))
    for first in range(0, len(episodes), size):
        group = slice(first, first + size)
        if baseline == "step":
            expected[:, group] = np.stack(mean_baseline(list(returns[:, group].T)), axis=1)
        else:
            expected[:, group] = _by_time(time[:, group], returns[:, group], counts[group])
    advantage = returns - expected
    return Rollouts(
        np.concatenate(inputs),
        np.concatenate(actions),
        np.concatenate([advantage[k, rows] for k, rows in enumerate(acting)]),
        objective.reward(episodes.config, episodes.state.cost).reshape(-1, size),
    )


def _by_time(time: Int32, returns: Float64, counts: Int64) -> Float64:
    """(K, N) mean return of a job set's episodes from the time of each action on.

    As `decima.rl.baselines.input_dependent_baseline`, which evaluates each episode anew for each
    other one; here times are whole, so that one table of all of them serves the group.

    Args:
        time: (K + 1, N) when each action was taken; after the end of an episode, the end.
        returns: (K, N) from each action on.
        counts: (N,) actions of each episode.
    """
    grid = np.arange(time[-1].max() + 1, dtype=np.float64)
    total = np.zeros(len(grid))
    for n, count in enumerate(counts):
        timed = TimedReturns(time[:count, n].astype(float), returns[:count, n], time[-1, n])
        total += timed.at(grid)
    return np.asarray(total[time[:-1]] / len(counts))


def imitated(
    network: Frozen, teacher: Scheduler, config: Config, jobs: Jobs
) -> tuple[Input, Int32]:
    """Let the teacher play each job set: the network's (Q, ...) inputs, and its (Q,) actions."""
    episodes, draws = Episodes(config, jobs), Draws(0, len(jobs.number))
    inputs: list[Input] = []
    actions: list[Int32] = []
    rows = episodes.under_way()
    while len(rows) > 0:
        inputs.append(network.observe(episodes, rows))
        actions.append(teacher.choose(episodes, rows, draws))
        rows = rows[~episodes.step(rows, actions[-1]).over]
    return np.concatenate(inputs), np.concatenate(actions)


class Branches(NamedTuple):
    """Result of trying all actions at some decisions of a policy."""

    inputs: Input
    """(n, ...) of the network"""
    excess: Float64
    """(n, A) cost of each action above the mean over those that are allowed; 0 for the others"""


def branched(
    network: Frozen, heuristic: Scheduler, episodes: Episodes, draws: Draws, objective: Objective
) -> Branches:
    """Let a policy play, and try every action at some of its decisions.

    Args:
        network: the policy's.
        heuristic: plays on after each action; nothing that it does is random.
        episodes: at their beginning.
        draws: of the policy's choices, and of the decisions that are tried.
        objective: what costs.
    """
    scheduler = Learned(network)
    inputs: list[Input] = []
    allowed: list[Bool] = []
    states: list[State] = []
    actions: list[Int32] = []
    rows = episodes.under_way()
    while len(rows) > 0:
        action = scheduler.choose(episodes, rows, draws)
        masks = episodes.masks(rows)
        tried = (masks.sum(axis=1) > 1) & (draws.next(rows) < SHARE)
        row, branch_action = np.nonzero(masks[tried])
        inputs.append(scheduler.inputs[tried])
        allowed.append(masks[tried])
        states.append(episodes.fork(rows[tried][row]).state)
        actions.append(branch_action.astype(np.int32))
        rows = rows[~episodes.step(rows, action).over]

    # All branches go on together: an action each, then as the heuristic plays.
    action = np.concatenate(actions)
    branches = episodes.fork(np.zeros(len(action), np.int32))
    branches.state = joined(states)
    branches.step(np.arange(len(action), dtype=np.int32), action)
    play(heuristic, branches, Draws(0, len(action)))

    masks = np.concatenate(allowed)
    cost = np.zeros(masks.shape)
    cost[masks] = -objective.reward(episodes.config, branches.state.cost)
    mean = cost.sum(axis=1, keepdims=True) / np.maximum(masks.sum(axis=1, keepdims=True), 1)
    return Branches(np.concatenate(inputs), np.where(masks, cost - mean, 0.0))
