"""Credit assignment: from finished rollouts to the advantage of each plan.

Q plans of B rollouts (lanes), which belong to sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from decima.objectives import Objective
from decima.rl import baselines, returns
from decima.rl.baselines import TimedReturns
from decima.training.config import CreditConfig
from spark_sim.tables import State
from traces.numbers import MS_PER_S, Float64, Int64

if TYPE_CHECKING:
    from decima.agent.recording import Decisions

LEAST_JOBS = 0.5  # least mean number of jobs in the system that advantages are divided by


class Reference(NamedTuple):
    """Mean time and number of jobs in the system under strict fair, in one setting."""

    jct_s: float  # average JCT
    jobs: float  # mean number of jobs in the system

    @property
    def value_s(self) -> float:
        """Unit of the critic's values, which makes them numbers of the size of 1."""
        return 4.0 * self.jct_s * max(self.jobs, LEAST_JOBS)


class Credit(NamedTuple):
    """Credit of Q plans: the inputs of an update beside their recording."""

    advantage: Float64  # (Q,)
    target: Float64  # (Q,) of the critic
    reward: Float64  # (Q,)


def assign_credit(
    config: CreditConfig,
    objective: Objective,
    decisions: Decisions,
    states: Sequence[State],
    *,
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
    without lambda), b the mean of the other rollouts' own at the same time, and the reward r_n the
    fall of the objective's cost from plan n to the next one, or to the end. Sources: Schulman et
    al. 2016, with lambda in continuous time; Decima 5.3 for b.

    Args:
        config: which estimate.
        objective: what is minimised; one with a `cost`.
        decisions: `lane`, `time_s` and `value` of each plan.
        states: (B,) of the rollouts, at their ends.
        sequence: (B,) which arrival sequence each rollout plays.
        rate: average reward a second, for differential returns.
        reference: units of the setting.
    """
    lane, time_s, value = decisions.lane, decisions.time_s, decisions.value
    end_s = np.array([state.clock[0]["time_ms"] / MS_PER_S for state in states])
    horizon_s = None if config.horizon is None else config.horizon * reference.jct_s
    trace_s = None if config.trace is None else config.trace * reference.jct_s
    order = np.argsort(lane, kind="stable")
    rows_of = np.split(order, np.searchsorted(lane[order], np.arange(1, len(states))))

    reward, advantage, target = np.zeros((3, len(lane)))
    for rows, state, end in zip(rows_of, states, end_s, strict=True):
        times_s = np.append(time_s[rows], end)
        elapsed_s = np.diff(times_s)
        reward[rows] = -np.diff(cost_at(objective, state, times_s))
        earned = returns.differential_reward(
            reward[rows], elapsed_s, rate if config.differential else 0.0
        )
        target[rows] = returns.discounted(earned, elapsed_s, horizon_s) / reference.value_s
        advantage[rows] = target[rows] * reference.value_s
        if config.critic:
            advantage[rows] = returns.generalised_advantage(
                earned, elapsed_s, value[rows] * reference.value_s, horizon_s, trace_s
            )

    baseline = np.zeros(len(lane))
    if config.baseline == "mean":
        means = baselines.mean_baseline([advantage[rows] for rows in rows_of])
        for rows, mean in zip(rows_of, means, strict=True):
            baseline[rows] = mean
    if config.baseline == "input":
        for number in np.unique(sequence):
            lanes = np.flatnonzero(sequence == number)
            timed = [
                TimedReturns(
                    time_s[rows_of[rollout]], advantage[rows_of[rollout]], float(end_s[rollout])
                )
                for rollout in lanes
            ]
            means = baselines.input_dependent_baseline(timed, leave_one_out=True)
            for rollout, mean in zip(lanes, means, strict=True):
                baseline[rows_of[rollout]] = mean
    advantage -= baseline

    # Relative to the sequence's cost per second, so that loads and settings have equal weight.
    # With the whole cost the shortest episodes would dominate: the advantage of a plan does not
    # grow with their exponential lengths.
    for number in np.unique(sequence[lane]):
        rows = sequence[lane] == number
        length_s = float(end_s[sequence == number].sum())
        advantage[rows] /= max(-float(reward[rows].sum()) / max(length_s, 1e-9), LEAST_JOBS)
    return Credit(advantage / reference.jct_s, target, reward)


def cost_at(objective: Objective, state: State, time_s: Float64) -> Float64:
    """(M,) cost of an objective up to the (M,) times of a run whose final tables are `state`."""
    if objective.cost is None:
        raise ValueError(f"objective {objective.name!r} is no sum over time")
    jobs = state.jobs[: int(state.clock[0]["num_jobs"])]
    completion_s = np.where(
        np.isnan(jobs["completion_ms"]), np.inf, jobs["completion_ms"] / MS_PER_S
    )
    return objective.cost(jobs["arrival_ms"] / MS_PER_S, completion_s, time_s)


def standardised(advantage: Float64, most: float = 4.0) -> Float64:
    """Return advantages with mean 0 and deviation 1, cut off at `most` deviations."""
    spread = float(advantage.std()) if len(advantage) else 0.0
    if spread == 0.0:
        return np.zeros_like(advantage)
    return np.asarray(np.clip((advantage - advantage.mean()) / spread, -most, most))


def setting_weights(counts: Sequence[float]) -> list[float]:
    """Return the weight of a plan of each setting, so that all settings have equal weight.

    A large cluster has more plans than a small one, with more entries each, and would be nearly the
    whole loss. `counts` are each setting's plans, or the weight of their entries.
    """
    share = sum(counts) / max(1, len(counts))
    return [share / max(1.0, count) for count in counts]
