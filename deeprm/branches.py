"""Branches: what each action would have cost, had a heuristic gone on from there.

At some decisions of a policy every allowed action is tried in the simulator, on the same arrivals,
and the heuristic plays to the end. So the costs of actions differ by the action alone, and a policy
that lowers its expected cost becomes better than the heuristic: one step of policy iteration.

Letters: n decisions, A actions.

Source: rollouts, Bertsekas and Castanon, Journal of Heuristics 5, 1999.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decima.rl.study.lockstep import joined, play
from decima.rl.study.streams import Draws
from deeprm.episodes import Episodes
from deeprm.learned import Frozen, Learned, Seen
from deeprm.objectives import Objective
from deeprm.schedulers import Scheduler
from deeprm.tables import Float64, Int32, State

SHARE = 0.2
"""of the decisions that are tried; those that follow each other are much alike"""


class Branches(NamedTuple):
    """Result of trying all actions at some decisions of a policy."""

    seen: Seen
    """(n, ...) the network's input"""
    excess: Float64
    """(n, A) cost of each action above the mean over those that are allowed; 0 for the others"""


def branched(
    frozen: Frozen, heuristic: Scheduler, episodes: Episodes, draws: Draws, objective: Objective
) -> Branches:
    """Let a policy play, and try every action at some of its decisions.

    Args:
        frozen: the policy's network.
        heuristic: plays on after each action; nothing that it does is random.
        episodes: at their beginning.
        draws: of the policy's choices, and of the decisions that are tried.
        objective: what costs.
    """
    scheduler = Learned(frozen)
    seen, allowed, states, actions = [], [], [], []
    rows = episodes.under_way()
    while len(rows) > 0:
        action = scheduler.choose(episodes, rows, draws)
        masks = episodes.masks(rows)
        tried = (masks.sum(axis=1) > 1) & (draws.next(rows) < SHARE)
        row, other = np.nonzero(masks[tried])
        seen.append(scheduler.seen[tried])
        allowed.append(masks[tried])
        states.append(episodes.fork(rows[tried][row]).state)
        actions.append(other.astype(np.int32))
        rows = rows[~episodes.step(rows, action).over]
    masks = np.concatenate(allowed)
    cost = np.zeros(masks.shape)
    cost[masks] = _costs(episodes, states, np.concatenate(actions), heuristic, objective)
    mean = cost.sum(axis=1, keepdims=True) / np.maximum(masks.sum(axis=1, keepdims=True), 1)
    return Branches(np.concatenate(seen), np.where(masks, cost - mean, 0.0))


def _costs(
    episodes: Episodes,
    states: list[State],
    action: Int32,
    heuristic: Scheduler,
    objective: Objective,
) -> Float64:
    """(m,) cost of whole episodes that go on with an action, then as the heuristic plays."""
    branches = episodes.fork(np.zeros(len(action), np.int32))
    branches.state = joined(states)
    everyone = np.arange(len(action), dtype=np.int32)
    branches.step(everyone, action)
    play(heuristic, branches, Draws(0, len(action)))
    return -objective.reward(episodes.config, branches.state.cost)
