"""Baselines: the expected return at a decision, so that the advantage measures the action, not
luck.

In a system driven by an outside input (jobs that arrive), most of the variance of a return comes
from the input. A baseline may depend on the whole input sequence without bias, as the input does
not depend on the actions.

Letters: N rollouts; rollout i has K_i decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decima.rl.returns import Floats


@dataclass(frozen=True)
class TimedReturns:
    """Returns of one rollout, and the times of its decisions."""

    time: Floats
    """(K,) wall time of each decision since the start of the episode, never falling"""
    returns: Floats
    """(K,) return-to-go at each decision"""
    end: float
    """wall time at which the episode ended, not before the last decision; the return there is 0"""

    def __post_init__(self) -> None:
        if self.time.ndim != 1 or self.time.shape != self.returns.shape:
            raise ValueError(
                f"times of shape {self.time.shape} and returns of shape {self.returns.shape}:"
                " both must be (K,), one entry for each decision"
            )
        if np.any(np.diff(self.time) < 0.0):
            raise ValueError("times of decisions fall: they must be in order")
        if len(self.time) > 0 and not self.end >= self.time[-1]:
            raise ValueError(
                f"the episode ends at {self.end}, before a decision at {self.time[-1]}"
            )

    def at(self, time: Floats) -> Floats:
        """Return-to-go at any (M,) times: linear between decisions, 0 beyond the end.

        At an instant with several decisions it is the return of the first of them; before the
        first decision it is the return there.
        """
        if len(self.time) == 0:
            return np.zeros(len(time))
        first = np.append(True, np.diff(self.time) > 0.0)
        node_time, node_return = self.time[first], self.returns[first]
        if self.end > node_time[-1]:
            node_time, node_return = np.append(node_time, self.end), np.append(node_return, 0.0)
        return np.asarray(np.interp(time, node_time, node_return, right=0.0))


def input_dependent_baseline(
    rollouts: Sequence[TimedReturns], *, leave_one_out: bool = False
) -> list[Floats]:
    r"""Mean return of the rollouts of one arrival sequence at the same wall time.

    .. math:: b_i(t) = \frac{1}{N} \sum_{j=1}^{N} G_j(t)

    where :math:`G_j(t)` is linear between the decisions of rollout j. With `leave_one_out` the sum
    leaves out j = i and is divided by N - 1: the baseline of a decision then does not depend on its
    own action, which takes away the last bias (a factor (N - 1) / N on the gradient).

    Source: Decima (SIGCOMM 2019), section 5.3; Mao et al., Variance Reduction for Reinforcement
    Learning in Input-Driven Environments, ICLR 2019.

    Args:
        rollouts: N rollouts of the same input; lengths and ends may differ.
        leave_one_out: leave the rollout itself out of its baseline; needs N >= 2.

    Returns:
        for each rollout i, (K_i,) the baseline at each of its decisions.
    """
    count = len(rollouts)
    if leave_one_out and count < 2:
        raise ValueError(f"{count} rollout of an input: a baseline without itself needs 2 or more")
    baselines = []
    for i, rollout in enumerate(rollouts):
        total = np.zeros(len(rollout.time))
        for j, other in enumerate(rollouts):
            if i != j or not leave_one_out:
                total += other.at(rollout.time)
        baselines.append(total / (count - 1 if leave_one_out else count))
    return baselines


def mean_baseline(returns: Sequence[Floats]) -> list[Floats]:
    r"""Mean return of all rollouts at the same step number, whatever their input: the ablation.

    .. math:: b_i[k] = \frac{1}{N} \sum_{j=1}^{N} G_j[k]

    where :math:`G_j[k]` is 0 beyond the last step of rollout j.

    Source: the step-dependent baseline of DeepRM (HotNets 2016), section 3.3.

    Args:
        returns: (K_i,) returns of N rollouts, of one input or of several.

    Returns:
        for each rollout i, (K_i,) the baseline at each of its decisions.
    """
    total = np.zeros(max((len(of_rollout) for of_rollout in returns), default=0))
    for of_rollout in returns:
        total[: len(of_rollout)] += of_rollout
    return [total[: len(of_rollout)] / len(returns) for of_rollout in returns]
