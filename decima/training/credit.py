"""Credit assignment: from finished rollouts to the advantage of each plan.

Q plans of B rollouts (lanes), which belong to sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decima.rl import baselines, returns
from decima.rl.baselines import TimedReturns
from decima.training.config import CreditConfig
from decima.training.costs import cost_at
from spark_sim.tables import State
from traces.numbers import Float64, Int64

LEAST_JOBS = 0.5  # least mean number of jobs in the system that advantages are divided by


class Reference(NamedTuple):
    """Mean time and number of jobs in the system under strict fair, in one setting."""

    jct_s: float  # average JCT
    jobs: float  # mean number of jobs in the system

    @property
    def value_s(self) -> float:
        """Unit of the critic's values, which makes them numbers of the size of 1."""
        return 4.0 * self.jct_s * max(self.jobs, LEAST_JOBS)


class Finished(NamedTuple):
    """B rollouts with Q plans in all."""

    lane: Int64  # (Q,) the rollout
    time_s: Float64  # (Q,)
    value: Float64  # (Q,) the critic's, in `Reference.value_s`
    states: list[State]  # of each rollout, at its end
    end_s: Float64  # (B,)


class Credit(NamedTuple):
    """Credit of Q plans: the inputs of an update beside their recording."""

    advantage: Float64  # (Q,)
    target: Float64  # (Q,) of the critic
    reward: Float64  # (Q,)


def standardised(advantage: Float64, most: float = 4.0) -> Float64:
    """Return advantages with mean 0 and deviation 1, cut off at `most` deviations."""
    spread = float(advantage.std()) if len(advantage) else 0.0
    if spread == 0.0:
        return np.zeros_like(advantage)
    found: Float64 = np.clip((advantage - advantage.mean()) / spread, -most, most)
    return found


def setting_weights(counts: Sequence[float]) -> list[float]:
    """Return the weight of a plan of each setting, so that all settings have equal weight.

    A large cluster has more plans than a small one, with more entries each, and would be nearly the
    whole loss. `counts` are each setting's plans, or the weight of their entries.
    """
    share = sum(counts) / max(1, len(counts))
    return [share / max(1.0, count) for count in counts]


def of_returns(
    config: CreditConfig,
    objective: str,
    played: Finished,
    sequence: Int64,
    rate: float,
    reference: Reference,
) -> Credit:
    r"""Advantages by what came after each plan.

    .. math::
        A_k = \hat A_k - b(t_k), \qquad
        \hat A_k = \sum_{n \ge k} e^{-(t_n - t_k)(1/\tau + 1/\lambda)} \delta_n, \qquad
        \delta_n = r_n + e^{-\Delta t_n / \tau} V_{n+1} - V_n

    with the horizon tau and the trace lambda of `config`, V the critic (0 without one, and then
    without lambda) and b the mean of the other rollouts' own at the same time. Sources: Schulman et
    al. 2016, with lambda in continuous time; Decima 5.3 for b.

    Args:
        config: which estimate.
        objective: name of what the rewards add up to, one of `config.RewardedObjective`.
        played: the rollouts.
        sequence: (B,) which arrival sequence each rollout plays.
        rate: average reward a second, for differential returns.
        reference: units of the setting.
    """
    count = len(played.lane)
    reward, found, target = np.zeros(count), np.zeros(count), np.zeros(count)
    horizon_s = None if config.horizon is None else config.horizon * reference.jct_s
    trace_s = None if config.trace is None else config.trace * reference.jct_s
    rows_of = _rows_by_lane(played.lane, len(played.states))
    for lane, rows in enumerate(rows_of):
        times = np.append(played.time_s[rows], played.end_s[lane])
        elapsed = np.diff(times)
        reward[rows] = -np.diff(cost_at(objective, played.states[lane], times))
        earned = returns.differential_reward(
            reward[rows], elapsed, rate if config.differential else 0.0
        )
        target[rows] = returns.discounted(earned, elapsed, horizon_s) / reference.value_s
        found[rows] = target[rows] * reference.value_s
        if config.critic:
            value = played.value[rows] * reference.value_s
            found[rows] = returns.generalised_advantage(earned, elapsed, value, horizon_s, trace_s)
    advantage = found - _baseline(config, played, rows_of, found, sequence)
    _relate_to_rate(advantage, reward, sequence, played)
    return Credit(advantage / reference.jct_s, target, reward)


def _rows_by_lane(lane: Int64, lanes: int) -> list[Int64]:
    """The decisions of each lane, in the order of time."""
    order = np.argsort(lane, kind="stable")
    ends = np.searchsorted(lane[order], np.arange(lanes + 1))
    return [order[ends[index] : ends[index + 1]] for index in range(lanes)]


def _baseline(
    config: CreditConfig, played: Finished, rows_of: list[Int64], found: Float64, sequence: Int64
) -> Float64:
    """(Q,) mean of other rollouts at the same time, or step."""
    baseline = np.zeros_like(found)
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


def _relate_to_rate(
    advantage: NDArray[np.float64], reward: Float64, sequence: Int64, played: Finished
) -> None:
    """Divide by the sequence's cost per second, so that loads and settings have equal weight.

    With the whole cost the shortest episodes would dominate: the advantage of a plan does not grow
    with their exponential lengths.
    """
    group = sequence[played.lane]
    for number in np.unique(group):
        rows = group == number
        length_s = float(played.end_s[sequence == number].sum())
        advantage[rows] /= max(-float(reward[rows].sum()) / max(length_s, 1e-9), LEAST_JOBS)
