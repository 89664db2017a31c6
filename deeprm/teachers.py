"""Examples that a heuristic teaches: its own actions, or the costs of all actions.

Imitation is the supervised warm start of the released code (`pg_su.py`). Branches go further: at
some decisions of a policy every allowed action is tried in the simulator, on the same arrivals, and
the heuristic plays to the end. So the costs of actions differ by the action alone, and a policy
that lowers its expected cost becomes better than the heuristic: one step of policy iteration.

Letters: n decisions, A actions, Q decisions of all episodes.

Source of branches: Bertsekas and Castanon, Journal of Heuristics 5, 1999.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decima.rl.study.lockstep import joined, play
from decima.rl.study.streams import Draws
from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.network import Frozen, Input
from deeprm.objectives import Objective
from deeprm.schedulers import Learned, Scheduler
from deeprm.tables import Bool, Float64, Int32, Jobs, State

SHARE = 0.2
"""of the decisions that are tried; those that follow each other are much alike"""


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
