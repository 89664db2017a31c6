"""Returns and advantages of one episode whose decisions lie at irregular times.

Letters: K decisions, k = 0..K-1. `reward[k]` is what is earned, and `elapsed[k]` the time that
passes, from decision k until the next decision, or until the end of the episode for the last one.
Times may have any unit, the same for `elapsed`, `horizon` and the denominator of a rate.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def differential_reward(reward: Floats, elapsed: Floats, rate: float) -> Floats:
    r"""Reward above what the average policy earns in the same time (average-reward setting).

    .. math:: \tilde r_k = r_k - \bar r \, \Delta t_k

    Source: Decima (SIGCOMM 2019), section 5.3 and appendix B; Sutton and Barto, section 10.3.

    Args:
        reward: (K,) reward r_k.
        elapsed: (K,) time that passes after each decision.
        rate: mean reward for each unit of time, see `AverageRate`.

    Returns:
        (K,) the differential reward.
    """
    _check_equal_length(reward, elapsed)
    return np.asarray(reward - rate * elapsed, dtype=np.float64)


def discounted(reward: Floats, elapsed: Floats, horizon: float | None) -> Floats:
    r"""Return-to-go with exponential discount in continuous time.

    .. math:: G_k = r_k + e^{-\Delta t_k / \tau} \, G_{k+1}, \qquad G_K = 0

    The reward of one interval is counted whole, at its start: only later ones are discounted.

    Source: Puterman, Markov Decision Processes, section 11.1 (semi-Markov processes).

    Args:
        reward: (K,) reward r_k.
        elapsed: (K,) time that passes after each decision, at least 0.
        horizon: time tau after which a reward counts 1/e; None counts all rewards fully.

    Returns:
        (K,) the return G_k.
    """
    _check_equal_length(reward, elapsed)
    return accumulated(reward, _discount(elapsed, horizon))


def generalised_advantage(
    reward: Floats, elapsed: Floats, value: Floats, horizon: float | None, trace: float | None
) -> Floats:
    r"""Advantages over a critic, with lambda as a time (generalised advantage estimation).

    .. math::
        \delta_k = r_k + e^{-\Delta t_k / \tau} V_{k+1} - V_k, \qquad
        A_k = \delta_k + e^{-\Delta t_k (1/\tau + 1/\lambda)} A_{k+1}, \qquad V_K = A_K = 0

    Source: Schulman et al., High-Dimensional Continuous Control Using Generalized Advantage
    Estimation, ICLR 2016, with decay by elapsed time in place of a factor for each step.

    Args:
        reward: (K,) reward r_k.
        elapsed: (K,) time that passes after each decision, at least 0.
        value: (K,) what the critic expects of each state, V_k.
        horizon: tau as in `discounted`.
        trace: lambda, a time; None leaves nothing to the critic: the return less V_k.

    Returns:
        (K,) the advantage A_k.
    """
    _check_equal_length(reward, elapsed)
    _check_equal_length(reward, value)
    factor = _discount(elapsed, horizon)
    error = reward + factor * np.append(value[1:], 0.0) - value
    return accumulated(error, factor * _discount(elapsed, trace))


class AverageRate:
    """Mean reward for each unit of time over the newest steps: the r-bar of the average reward.

    Sum of rewards over sum of times (not a mean of ratios: steps differ in duration). Steps are
    stored as sums of the batches in which they came, so the state stays small; the oldest batch is
    forgotten once the others hold `window` steps.

    Source: Decima (SIGCOMM 2019), appendix B; its released code takes the last 100,000 steps.
    """

    def __init__(self, window: int = 100_000) -> None:
        if window < 1:
            raise ValueError(f"the window is {window} steps: at least 1 is needed")
        self.window = window
        self._batches: deque[tuple[float, float, float]] = deque()  # steps, reward, time

    @property
    def rate(self) -> float:
        """Reward for each unit of time; 0 before any time has passed."""
        elapsed = math.fsum(batch[2] for batch in self._batches)
        return math.fsum(batch[1] for batch in self._batches) / elapsed if elapsed > 0.0 else 0.0

    def add(self, steps: int, reward: float, elapsed: float) -> None:
        """Take in one batch: its number of steps, what they earned, and the time that took."""
        if steps < 0:
            raise ValueError(f"a batch of {steps} steps: it must not be negative")
        self._batches.append((float(steps), reward, elapsed))
        self._forget()

    def state(self) -> Floats:
        """(B, 3) the batches held, oldest first: number of steps, sum of reward, sum of time."""
        return np.array(self._batches, dtype=np.float64).reshape(-1, 3)

    def load(self, state: Floats) -> None:
        """Continue from what `state` gave."""
        if state.ndim != 2 or state.shape[1] != 3:
            raise ValueError(f"state of an average rate has shape {state.shape}: (B, 3) is needed")
        self._batches = deque((row[0], row[1], row[2]) for row in state.tolist())
        self._forget()

    def _forget(self) -> None:
        held = sum(batch[0] for batch in self._batches)
        while self._batches and held - self._batches[0][0] >= self.window:
            held -= self._batches.popleft()[0]


def _discount(elapsed: Floats, horizon: float | None) -> Floats:
    """(K,) factor between each decision and the next."""
    if horizon is None:
        return np.ones(len(elapsed))
    if not horizon > 0.0:
        raise ValueError(f"the discount horizon is {horizon}: it must be above 0, or None")
    if np.any(elapsed < 0.0):
        raise ValueError(f"elapsed time {elapsed.min()} is negative: decisions must be in order")
    return np.exp(-elapsed / horizon)


def accumulated(term: Floats, factor: Floats) -> Floats:
    """(K,) x_k = term_k + factor_k * x_{k+1}, from the end, with x_K = 0."""
    following = 0.0
    backwards = []
    # Lists of floats: a numpy scalar for each step takes five times as long.
    for step, weight in zip(term[::-1].tolist(), factor[::-1].tolist(), strict=True):
        following = step + weight * following
        backwards.append(following)
    return np.array(backwards[::-1], dtype=np.float64)


def _check_equal_length(first: Floats, second: Floats) -> None:
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(
            f"arrays of one episode have shapes {first.shape} and {second.shape}:"
            " both must be (K,), one entry for each decision"
        )
