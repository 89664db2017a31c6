"""Losses of policy-gradient learning, to be minimised.

Letters: B decisions. Every loss is a sum over the B decisions given, divided by `total`: the number
of decisions of the whole update where these are one chunk of it (the gradients of the chunks then
add up to that of the mean over all), B if None.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_SMALLEST_STD = 1e-8


class ClippedLoss(NamedTuple):
    """A clipped-ratio loss and what to watch beside it; all scalars, the last two without graph."""

    loss: Tensor
    approximate_kl: Tensor
    """Kullback-Leibler divergence of the policy from the one that acted, at least 0"""
    clip_fraction: Tensor
    """share of the decisions whose ratio lies outside 1 +- clip"""


def policy_gradient_loss(
    log_prob: Tensor, advantage: Tensor, *, total: float | None = None
) -> Tensor:
    r"""REINFORCE: its gradient is the policy gradient, negated.

    .. math:: L = -\frac{1}{B} \sum_k A_k \log \pi(a_k | s_k)

    Source: Williams 1992; Decima (SIGCOMM 2019), equation 3 (there without the division by B).

    Args:
        log_prob: (B,) log-probability of the action taken, with graph.
        advantage: (B,) how much better than expected it turned out; taken as constant.
        total: number of decisions of the whole update, see the module.

    Returns:
        () the loss.
    """
    _check_equal_shape(log_prob, advantage)
    return -_mean(log_prob * advantage.detach(), total)


def clipped_ratio_loss(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    clip: float,
    *,
    total: float | None = None,
) -> ClippedLoss:
    r"""PPO: the policy gradient for several passes over the same decisions.

    .. math::
        \rho_k &= \pi(a_k | s_k) / \pi_{old}(a_k | s_k) \\
        L &= -\frac{1}{B} \sum_k \min(\rho_k A_k,\;
             \mathrm{clip}(\rho_k, 1 - \epsilon, 1 + \epsilon) A_k)

    The divergence is the estimate :math:`\frac{1}{B} \sum_k (\rho_k - 1) - \log \rho_k`, which is
    never negative.

    Source: Schulman et al. 2017, equation 7; Schulman, Approximating KL Divergence, 2020.

    Args:
        log_prob: (B,) log-probability of the action taken, with graph.
        old_log_prob: (B,) the same of the policy that acted.
        advantage: (B,) how much better than expected it turned out; taken as constant.
        clip: epsilon, above 0.
        total: number of decisions of the whole update, see the module.
    """
    _check_equal_shape(log_prob, old_log_prob)
    _check_equal_shape(log_prob, advantage)
    if not clip > 0.0:
        raise ValueError(f"the ratio is clipped at 1 +- {clip}: it must be above 0")
    log_ratio = log_prob - old_log_prob.detach()
    ratio = log_ratio.exp()
    gain = advantage.detach()
    loss = -_mean(torch.minimum(ratio * gain, ratio.clamp(1.0 - clip, 1.0 + clip) * gain), total)
    with torch.no_grad():
        divergence = _mean(torch.expm1(log_ratio) - log_ratio, total)
        clipped = _mean(((ratio - 1.0).abs() > clip).to(ratio.dtype), total)
    return ClippedLoss(loss, divergence, clipped)


def entropy_loss(entropy: Tensor, weight: float, *, total: float | None = None) -> Tensor:
    r"""Entropy bonus as a term to minimise: it rewards policies that still explore.

    .. math:: L = -\frac{\beta}{B} \sum_k H_k

    Source: Williams and Peng 1991; Decima (SIGCOMM 2019), section 6.1 lets the weight decay.

    Args:
        entropy: (B,) entropy H_k of the distribution at each decision, with graph.
        weight: beta, at least 0.
        total: number of decisions of the whole update, see the module.
    """
    return -weight * _mean(entropy, total)


def value_loss(value: Tensor, target: Tensor, *, total: float | None = None) -> Tensor:
    r"""Half the mean squared error of a value function.

    .. math:: L = \frac{1}{2B} \sum_k (V_k - G_k)^2

    Args:
        value: (B,) estimates V_k, with graph.
        target: (B,) returns G_k to reach; taken as constant.
        total: number of decisions of the whole update, see the module.
    """
    _check_equal_shape(value, target)
    return 0.5 * _mean((value - target.detach()).square(), total)


def normalised(advantage: Tensor, mean: float, std: float) -> Tensor:
    """Advantages shifted and scaled to mean 0 and standard deviation 1: (B,).

    Mean and deviation are given, as they are those of the whole update, of which these may be one
    chunk. A deviation of 0 leaves zeros.
    """
    return (advantage - mean) / (std + _SMALLEST_STD)


def _mean(term: Tensor, total: float | None) -> Tensor:
    return term.sum() / (term.numel() if total is None else total)


def _check_equal_shape(first: Tensor, second: Tensor) -> None:
    if first.shape != second.shape:  # (B, 1) beside (B,) would broadcast to (B, B) silently
        raise ValueError(
            f"shapes {tuple(first.shape)} and {tuple(second.shape)}: both must be (B,), one entry"
            " for each decision"
        )
