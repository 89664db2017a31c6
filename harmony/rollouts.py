"""Choices of many episodes, what they were credited with, and the targets of teachers.

Letters: Q choices, in the order in which an episode made them, episode after episode.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch

from decima.rl.returns import accumulated
from decima.rl.study.lockstep import joined, play
from decima.rl.study.streams import Draws
from harmony.clusters import Clusters
from harmony.config import MAX_JOBS
from harmony.models import drawn, log_probabilities
from harmony.network import ActorCritic
from harmony.schedulers import LoadBalance, Lookahead, Mixed, Scheduler, Tetris
from harmony.tables import Float32, Float64, Int32
from harmony.tokens import Scene, most_rows, see

VALUE_SCALE = 10.0
"""rewards to come, in the unit of the value network"""


class Played(NamedTuple):
    """Q choices."""

    scene: Scene
    action: Int32
    """(Q,) what was done"""
    target: Float32
    """(Q, 2 M) the teacher's probabilities of the actions; 0 where there is none"""
    log_prob: Float64
    """(Q,) of the action, by the policy that played"""
    value: Float64
    """(Q,) what the value network expected"""
    reward: Float64
    """(Q,) discounted, of the intervals that passed after the choice"""
    passed: Int32
    """(Q,) how many"""
    episode: Int32
    """(Q,) not falling"""


def roll_out(
    network: ActorCritic,
    clusters: Clusters,
    draws: Draws,
    exploration: float,
    teacher: Teacher | None,
) -> Played:
    """Play all episodes to their ends, in lockstep.

    Args:
        network: the policy that chooses, and the critic.
        clusters: the episodes, at their beginning.
        draws: of the choices.
        exploration: chance of bin packing or load balancing instead, as in the paper.
        teacher: gives the target of every choice, and takes over half of them.
    """
    explorer = Mixed((LoadBalance(), Tetris()))
    most = most_rows(clusters.config)
    parts: list[Played] = []
    rows = clusters.under_way()
    while len(rows) > 0:
        scene = see(clusters, rows, most)
        trimmed = scene.trimmed()
        log_prob = log_probabilities(network.policy, trimmed)
        with torch.no_grad():
            value = np.asarray(network.value(trimmed).double().numpy())
        action = drawn(np.exp(log_prob), draws.next(rows))
        target = np.zeros(log_prob.shape, np.float32)
        if teacher is not None:
            target = teacher.targets(clusters, rows, draws).astype(np.float32)
            best = target.argmax(axis=1).astype(np.int32)
            action = np.where(draws.next(rows) < 0.5, best, action)
        explores = draws.next(rows) < exploration
        if explores.any():
            action[explores] = explorer.choose(clusters, rows[explores], draws)
        steps = clusters.step(rows, action)
        taken = log_prob[np.arange(len(rows)), action]
        parts.append(Played(scene, action, target, taken, value, steps.reward, steps.passed, rows))
        rows = rows[~steps.over]
    # One round after another, made into one episode after another.
    rounds = joined(parts)
    order = np.argsort(rounds.episode, kind="stable").astype(np.int32)
    columns = (column[order] for column in rounds[1:])
    return Played._make((rounds.scene.rows(order), *columns))


def numbered_on(parts: list[Played]) -> Played:
    """Episodes of several groups of clusters, numbered on."""
    first = np.cumsum([0, *(int(part.episode.max()) + 1 for part in parts)])
    numbered = [
        part._replace(episode=part.episode + np.int32(at))
        for part, at in zip(parts, first, strict=False)
    ]
    return joined(numbered)


def returns_of(played: Played, discount: float) -> Float64:
    r"""(Q,) discounted rewards to come.

    .. math:: G_i = r_i + \gamma^{k_i} G_{i+1}

    with the number :math:`k_i` of intervals that passed between two choices: all choices of one
    interval are credited with the same. Source: Harmony, section IV.
    """
    return accumulated(played.reward, _discounts(played, discount))


def advantages_of(played: Played, discount: float, smoothing: float) -> Float64:
    r"""(Q,) how much better than expected, in the unit of rewards.

    .. math:: A_i = \delta_i + (\gamma \lambda)^{k_i} A_{i+1}, \qquad
        \delta_i = r_i + \gamma^{k_i} V_{i+1} - V_i

    With :math:`\lambda = 1` it is :math:`G_i - V_i`. Source: Schulman et al., Generalized Advantage
    Estimation, 2016, with intervals as the steps of time.
    """
    value = VALUE_SCALE * played.value
    expected = np.append(value[1:], 0.0)
    surprise = played.reward + _discounts(played, discount) * expected - value
    return accumulated(surprise, _discounts(played, discount * smoothing))


def _discounts(played: Played, factor: float) -> Float64:
    """(Q,) what the next choice counts at each; 0 at the last one of an episode."""
    # Powers of Python: those of numpy differ in the last bit.
    powers = np.array([factor**passed for passed in range(int(played.passed.max()) + 1)])
    goes_on = np.append(np.diff(played.episode) == 0, False)
    return np.where(goes_on, powers[played.passed], 0.0)


class Teacher(Protocol):
    """Protocol of a teacher."""

    def targets(self, clusters: Clusters, rows: Int32, draws: Draws) -> Float64:
        """(n, 2 M) probabilities of the actions of the episodes `rows`."""
        ...


class Sure:
    """A scheduler's choice, for certain."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def targets(self, clusters: Clusters, rows: Int32, draws: Draws) -> Float64:
        """Return the targets; see `Teacher`."""
        targets = np.zeros((len(rows), clusters.config.actions))
        targets[np.arange(len(rows)), self._scheduler.choose(clusters, rows, draws)] = 1.0
        return targets


class Branches:
    r"""Teacher that lets a scheduler play on behind each action.

    .. math:: p(a) \propto \exp\left(-\frac{C(a) - \min_b C(b)}{\tau}\right)

    with the time from arrival to completion :math:`C` in intervals, added over the jobs played. All
    branches meet the same jobs, so that chance cancels in the differences. It knows what a policy
    does not: speeds, lengths and the jobs to come. One that learns from it at many choices learns
    what is best on average over what it cannot see.

    Args:
        scheduler: plays on after each action.
        tau: how much longer an action may take to be hardly worse.
        coming: how many of the jobs to come each branch plays. What an action does to later ones
            is chance more than cause, and takes most of the CPU time.
    """

    def __init__(
        self, scheduler: LoadBalance | Lookahead, tau: float, coming: int = MAX_JOBS
    ) -> None:
        self._scheduler = scheduler
        self._tau = tau
        self._coming = coming

    def targets(self, clusters: Clusters, rows: Int32, draws: Draws) -> Float64:
        """Return the targets; see `Teacher`."""
        total = self.outcomes(clusters, rows)
        weight = np.exp(-(total - total.min(axis=1, keepdims=True)) / self._tau)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def outcomes(self, clusters: Clusters, rows: Int32) -> Float64:
        """(n, 2 M) total time to completion in intervals; infinite where not allowed."""
        allowed = clusters.masks(rows)
        at, action = np.nonzero(allowed)
        branches = clusters.fork_until(rows[at], self._coming)
        branches.step(np.arange(len(at), dtype=np.int32), action.astype(np.int32))
        if clusters.speeds_are_predicted:
            play(self._scheduler, branches, Draws(0, len(at)))
        else:
            self._scheduler.play_out(branches)
        total = np.full(allowed.shape, np.inf)
        total[at, action] = branches.completion_min().sum(axis=1) / clusters.config.interval_min
        return total
