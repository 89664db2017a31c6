"""Choices of many episodes, what they were credited with, and the teacher's answers.

Letters: Q choices, in the order in which an episode made them, episode after episode.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from decima.rl.returns import accumulated
from decima.rl.study.lockstep import joined
from decima.rl.study.streams import Draws
from harmony.clusters import Clusters
from harmony.learned import drawn, log_probabilities
from harmony.network import ActorCritic
from harmony.schedulers import LoadBalance, Mixed, Tetris
from harmony.tables import Float32, Float64, Int32
from harmony.teachers import Teacher
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
