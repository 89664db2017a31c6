"""Episodes played to learn from: what was seen and done, and how much better it was than expected.

Letters: S job sets, N episodes of each, E = S N episodes, K rounds of the longest, Q decisions.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from decima.rl.baselines import TimedReturns, mean_baseline
from decima.rl.study.lockstep import play
from decima.rl.study.streams import Draws
from deeprm.episodes import Episodes, Steps
from deeprm.learned import Frozen, Learned, Seen
from deeprm.objectives import Objective
from deeprm.tables import Float64, Int32


class Grouping(NamedTuple):
    """Groups of episodes that are compared with each other, and at which steps."""

    size: int
    """N: so many episodes in a row are of one job set"""
    moment: Literal["step", "time"]
    """"step": after the same number of actions (the paper, figure 3; an episode that is over has
    return 0 then); "time": at the same time step"""


class Rollouts(NamedTuple):
    """Q decisions of E episodes, in the order in which they were taken."""

    seen: Seen
    """(Q, ...) the network's input"""
    action: Int32
    """(Q,)"""
    advantage: Float64
    """(Q,) return from here on, less the mean over all episodes of the job set"""
    reward: Float64
    """(S, N) total of each episode"""


class Record:
    """The rounds of a lockstep: round k has the k-th action of every episode not over by then."""

    def __init__(self, scheduler: Learned, episodes: Episodes) -> None:
        self._scheduler = scheduler
        self._episodes = episodes
        self.seen: list[Seen] = []
        self.rows: list[Int32] = []
        self.action: list[Int32] = []
        self._steps: list[Steps] = []
        self._time: list[Int32] = [episodes.state.time.copy()]

    def acted(self, rows: Int32, action: Int32, steps: Steps) -> None:
        """Take in a round."""
        self.seen.append(self._scheduler.seen)
        self.rows.append(rows)
        self.action.append(action)
        self._steps.append(steps)
        self._time.append(self._episodes.state.time.copy())

    def returns(self, objective: Objective, discount: float) -> Float64:
        """(K, E) reward from each action to the end of its episode; 0 after that.

        Args:
            objective: what is rewarded.
            discount: gamma, for each step of time.
        """
        reward = np.zeros((len(self.rows), len(self._episodes)))
        for k, rows in enumerate(self.rows):
            reward[k, rows] = objective.reward(self._episodes.config, self._steps[k].cost)
        factor = np.power(discount, np.diff(np.stack(self._time), axis=0))
        for k in range(len(reward) - 1, 0, -1):
            reward[k - 1] += factor[k - 1] * reward[k]
        return reward

    def times(self) -> Int32:
        """(K, E) when each action was taken; after the end of an episode, the end."""
        return np.stack(self._time[:-1])

    def ends(self) -> Int32:
        """(E,) when each episode ended."""
        return self._time[-1]

    def actions_of(self) -> Int32:
        """(E,) number of actions of each episode."""
        return np.bincount(np.concatenate(self.rows), minlength=len(self._episodes)).astype(
            np.int32
        )


def roll_out(
    frozen: Frozen,
    episodes: Episodes,
    draws: Draws,
    objective: Objective,
    grouping: Grouping,
    discount: float = 1.0,
) -> Rollouts:
    """Play all episodes, and return the advantage of each action.

    Args:
        frozen: the network that chooses.
        episodes: E episodes, at their beginning.
        draws: of its choices.
        objective: what is rewarded.
        grouping: of the E episodes, whose number its size divides.
        discount: gamma of the returns, for each step of time.
    """
    scheduler = Learned(frozen)
    record = Record(scheduler, episodes)
    play(scheduler, episodes, draws, record.acted)
    returns = record.returns(objective, discount)
    size = grouping.size
    members = [slice(first, first + size) for first in range(0, len(episodes), size)]
    of_group = _by_step if grouping.moment == "step" else _by_time
    expected = np.concatenate([of_group(record, returns, one) for one in members], axis=1)
    advantage = returns - expected
    return Rollouts(
        np.concatenate(record.seen),
        np.concatenate(record.action),
        np.concatenate([advantage[k, rows] for k, rows in enumerate(record.rows)]),
        objective.reward(episodes.config, episodes.state.cost).reshape(-1, size),
    )


def _by_step(_record: Record, returns: Float64, members: slice) -> Float64:
    """(K, N) mean return of the group's k-th actions."""
    return np.stack(mean_baseline(list(returns[:, members].T)), axis=1)


def _by_time(record: Record, returns: Float64, members: slice) -> Float64:
    """(K, N) mean return of the group from the time of each action on.

    As `decima.rl.baselines.input_dependent_baseline`, which asks each episode anew for each other
    one; here times are whole, so that one table of all of them serves the group.
    """
    times, ends = record.times()[:, members], record.ends()[members]
    counts = record.actions_of()[members]
    grid = np.arange(ends.max() + 1, dtype=np.float64)
    total = np.zeros(len(grid))
    for n, count in enumerate(counts):
        own = TimedReturns(times[:count, n].astype(float), returns[:count, members][:, n], ends[n])
        total += own.at(grid)
    return np.asarray(total[times] / len(counts))
