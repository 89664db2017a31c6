"""From finished rollouts to advantages: how much better than expected each action turned out.

K decisions of B rollouts (lanes), which belong to sequences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.agent.rollout import Rollouts
from decima.training.config import CreditConfig
from decima.training.costs import cost_at
from rl import baselines, returns
from rl.baselines import TimedReturns
from traces.numbers import Float64, Int64

UNBOUNDED_UNIT_S = 1_000.0
"""unit of undiscounted returns"""


class Credit(NamedTuple):
    """What an update needs to know of K decisions, beside their recording."""

    advantage: Float64  # (K,)
    target: Float64  # (K,) of the critic, in units of `value_unit_s`
    reward_rate: float  # per second, over all rollouts
    reward: Float64  # (K,)


def value_unit_s(config: CreditConfig) -> float:
    """Values are learned in this unit, which makes them numbers of the size of 1."""
    return 4 * UNBOUNDED_UNIT_S if config.horizon_s is None else 4 * config.horizon_s


def assign_credit(config: CreditConfig, rollouts: Rollouts, sequence: Int64, rate: float) -> Credit:
    """Advantages and value targets.

    Args:
        config: which estimate.
        rollouts: B rollouts with K decisions in all.
        sequence: (B,) which arrival sequence each rollout plays.
        rate: average reward a second, for differential returns.
    """
    decisions = rollouts.recording.decisions
    reward = np.zeros(len(decisions.lane))
    advantage, target = np.zeros_like(reward), np.zeros_like(reward)
    rows_of = _rows_by_lane(decisions.lane, len(rollouts.states))
    for lane, rows in enumerate(rows_of):
        times = np.append(decisions.time_s[rows], rollouts.end_s[lane])
        reward[rows] = -np.diff(cost_at(config.objective, rollouts.states[lane], times))
        advantage[rows], target[rows] = _of_lane(
            config, rollouts, rows, reward[rows], rate if config.differential else 0.0
        )
    total_s = float(rollouts.end_s.sum())
    reward_rate = float(reward.sum()) / total_s if total_s > 0 else 0.0
    advantage -= _baseline(config, rollouts, rows_of, advantage, sequence)
    if config.normalise == "sequence":
        _normalise_each(advantage, sequence[decisions.lane])
    elif config.normalise == "cost":
        _relate_to_cost(advantage, reward, sequence, decisions.lane)
    return Credit(advantage, target, reward_rate, reward)


def _rows_by_lane(lane: Int64, lanes: int) -> list[Int64]:
    """The decisions of each lane, in the order of time."""
    order = np.argsort(lane, kind="stable")
    ends = np.searchsorted(lane[order], np.arange(lanes + 1))
    return [order[ends[index] : ends[index + 1]] for index in range(lanes)]


def _of_lane(
    config: CreditConfig, rollouts: Rollouts, rows: Int64, reward: Float64, rate: float
) -> tuple[Float64, Float64]:
    """Advantage before the baseline, and the critic's target."""
    elapsed_s = rollouts.elapsed_s[rows]
    earned = returns.differential_reward(reward, elapsed_s, rate)
    unit_s = value_unit_s(config)
    if not config.critic or not len(rows):
        found = returns.discounted(earned, elapsed_s, config.horizon_s)
        return found, found / unit_s
    lane = int(rollouts.recording.decisions.lane[rows[0]])
    value = rollouts.recording.decisions.value[rows]
    # A truncated episode would have gone on much as it was; a finished one is worth 0.
    finished = not np.isnan(rollouts.states[lane].jobs["completion_ms"]).any()
    last_value = 0.0 if finished else float(value[-1])
    found = returns.generalised_advantage(
        earned / unit_s,
        elapsed_s,
        value,
        last_value,
        horizon=config.horizon_s,
        lam=returns.trace_decay(elapsed_s, config.trace_s),
    )
    return found, found + value


def _baseline(
    config: CreditConfig,
    rollouts: Rollouts,
    rows_of: list[Int64],
    found: Float64,
    sequence: Int64,
) -> Float64:
    """(K,) what other rollouts had at the same time, or step."""
    baseline = np.zeros_like(found)
    if config.baseline == "none":
        return baseline
    if config.baseline == "mean":
        several = [found[rows] for rows in rows_of]
        for rows, value in zip(rows_of, baselines.mean_baseline(several), strict=True):
            baseline[rows] = value
        return baseline
    time_s = rollouts.recording.decisions.time_s
    for number in np.unique(sequence):
        lanes = np.flatnonzero(sequence == number)
        timed = [
            TimedReturns(time_s[rows_of[lane]], found[rows_of[lane]], float(rollouts.end_s[lane]))
            for lane in lanes
        ]
        values = baselines.input_dependent_baseline(timed, leave_one_out=True)
        for lane, value in zip(lanes, values, strict=True):
            baseline[rows_of[lane]] = value
    return baseline


def _relate_to_cost(advantage: Float64, reward: Float64, sequence: Int64, lane: Int64) -> None:
    """To shares of what the sequence costs, so that each counts by how much better it became.

    Deviation 1 instead would make little of the sequences with much noise, though there may be as
    much to gain in them.
    """
    group = sequence[lane]
    for number in np.unique(group):
        rows = group == number
        cost = -float(reward[rows].sum()) / int((sequence == number).sum())
        advantage[rows] /= max(cost, 1e-8)


def _normalise_each(advantage: NDArray[np.float64], group: Int64) -> None:
    """To mean 0 and deviation 1 within each group, so that busy sequences do not outweigh all."""
    for number in np.unique(group):
        rows = group == number
        spread = float(advantage[rows].std())
        advantage[rows] = (advantage[rows] - advantage[rows].mean()) / max(spread, 1e-8)
