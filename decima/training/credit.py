"""From finished rollouts to advantages: how much better than expected each plan turned out.

Q plans of B rollouts (lanes), which belong to sequences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.training.config import CreditConfig
from decima.training.costs import cost_at
from rl import baselines, returns
from rl.baselines import TimedReturns
from spark_sim.tables import State
from traces.numbers import Float64, Int64

VALUE_UNIT_S = 4_000.0
"""values are learned in this unit, which makes them numbers of the size of 1"""


class Finished(NamedTuple):
    """B rollouts with Q plans in all."""

    lane: Int64  # (Q,) the rollout
    time_s: Float64  # (Q,)
    value: Float64  # (Q,) the critic's, in `VALUE_UNIT_S`
    states: list[State]  # of each rollout, at its end
    end_s: Float64  # (B,)


class Credit(NamedTuple):
    """What an update needs to know of Q plans, beside their recording."""

    advantage: Float64  # (Q,)
    target: Float64  # (Q,) of the critic
    reward: Float64  # (Q,)


def of_branches(cost: Float64, state: Int64) -> Float64:
    """(Q,) advantages of plans that were tried from the same states.

    A plan is better by what the others from its state cost on average more than it: arrivals and
    durations are the same for all of them, so their luck falls out.

    Args:
        cost: (Q,) of the run to its end after each plan.
        state: (Q,) which state, not falling; each has at least two plans.
    """
    first = np.flatnonzero(np.append(True, np.diff(state) > 0))
    counts = np.diff(np.append(first, len(state)))
    total = np.repeat(np.add.reduceat(cost, first), counts)
    others = (total - cost) / np.repeat(counts - 1, counts)
    advantage: Float64 = others - cost
    return advantage


def to_spread(advantage: Float64, group: Int64, most: float = 4.0) -> Float64:
    """(Q,) relative to the root mean square of each group, cut off at `most` of them.

    So each setting counts alike, whatever its costs and however wild its luck.
    """
    found = np.zeros_like(advantage)
    for number in np.unique(group):
        rows = group == number
        spread = float(np.sqrt(np.mean(np.square(advantage[rows]))))
        if spread > 0:
            found[rows] = np.clip(advantage[rows] / spread, -most, most)
    return found


def of_returns(config: CreditConfig, played: Finished, sequence: Int64, rate: float) -> Credit:
    """Advantages by what came after each plan (REINFORCE).

    Args:
        config: which estimate.
        played: the rollouts.
        sequence: (B,) which arrival sequence each rollout plays.
        rate: average reward a second, for differential returns.
    """
    reward = np.zeros(len(played.lane))
    found, target = np.zeros_like(reward), np.zeros_like(reward)
    rows_of = _rows_by_lane(played.lane, len(played.states))
    for lane, rows in enumerate(rows_of):
        times = np.append(played.time_s[rows], played.end_s[lane])
        reward[rows] = -np.diff(cost_at(config.objective, played.states[lane], times))
        earned = returns.differential_reward(
            reward[rows], np.diff(times), rate if config.differential else 0.0
        )
        found[rows] = returns.discounted(earned, np.diff(times), config.horizon_s)
        target[rows] = found[rows] / VALUE_UNIT_S
    advantage = found - _baseline(config, played, rows_of, found, sequence)
    _relate_to_cost(advantage, reward, sequence, played.lane)
    return Credit(advantage, target, reward)


def _rows_by_lane(lane: Int64, lanes: int) -> list[Int64]:
    """The decisions of each lane, in the order of time."""
    order = np.argsort(lane, kind="stable")
    ends = np.searchsorted(lane[order], np.arange(lanes + 1))
    return [order[ends[index] : ends[index + 1]] for index in range(lanes)]


def _baseline(
    config: CreditConfig,
    played: Finished,
    rows_of: list[Int64],
    found: Float64,
    sequence: Int64,
) -> Float64:
    """(Q,) what other rollouts had at the same time, or step; or what the critic expects."""
    baseline = np.zeros_like(found)
    if config.baseline == "critic":
        return played.value * VALUE_UNIT_S
    if config.baseline == "mean":
        several = [found[rows] for rows in rows_of]
        for rows, value in zip(rows_of, baselines.mean_baseline(several), strict=True):
            baseline[rows] = value
    if config.baseline == "input":
        for number in np.unique(sequence):
            lanes = np.flatnonzero(sequence == number)
            timed = [
                TimedReturns(
                    played.time_s[rows_of[lane]], found[rows_of[lane]], float(played.end_s[lane])
                )
                for lane in lanes
            ]
            values = baselines.input_dependent_baseline(timed, leave_one_out=True)
            for lane, value in zip(lanes, values, strict=True):
                baseline[rows_of[lane]] = value
    return baseline


def _relate_to_cost(
    advantage: NDArray[np.float64], reward: Float64, sequence: Int64, lane: Int64
) -> None:
    """To shares of what the sequence costs, so that each counts by how much better it became.

    Deviation 1 instead would make little of the sequences with much noise, though there may be as
    much to gain in them.
    """
    group = sequence[lane]
    for number in np.unique(group):
        rows = group == number
        cost = -float(reward[rows].sum()) / int((sequence == number).sum())
        advantage[rows] /= max(cost, 1e-8)
