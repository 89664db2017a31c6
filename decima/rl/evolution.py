r"""Evolution strategies: weights move towards the perturbations that lower an objective.

One iteration scores K pairs of opposite perturbations of the weights theta. The two of a pair meet
the same random input; each pair may have an input of its own, from one of N settings.

.. math::
    \epsilon_k &\sim N(0, I_P), \qquad
    \theta_k^\pm = \theta \pm \sigma D \epsilon_k, \qquad
    d_k = \log f(\theta_k^+) - \log f(\theta_k^-) \\
    g &= -\sum_k \mathrm{clip}(d_k / s_{n(k)},\, \pm 3)\, \epsilon_k, \qquad
    v \leftarrow m v + (1 - m) \sqrt{P} \, g / \lVert g \rVert \\
    \theta &\leftarrow \theta + r \sigma D v

Letters: P weights that may change, D their scales (a diagonal), f the objective, which is lowered,
n(k) the setting of pair k, s_n the typical size of a difference there (so that no setting outweighs
the others), m the momentum and r the rate.

A perturbation is drawn again from its number wherever it is needed, so only numbers and figures
travel between processes. Sigma follows the weights: it is the width at which perturbations worsen
the objective by a given share, which is the curvature that the steps can bear.

Source: Salimans, Ho, Chen, Sidor and Sutskever, Evolution Strategies as a Scalable Alternative to
Reinforcement Learning, 2017.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_STREAM = 14
_MEMORY = 0.8  # weight of earlier iterations in the typical difference of a setting
_LARGEST = 3.0  # typical differences at which one is clipped: two deviations
_WIDEST_CHANGE = 1.25  # most that sigma changes in one iteration
_WIDEST = 3.0  # most that sigma may become, in first sigmas: where nothing costs, it would run away


class Scored(NamedTuple):
    """Logarithm of the objective under the perturbations of each pair."""

    plus: Float64  # (K,)
    minus: Float64  # (K,)
    centre: Float64  # (K,) of the weights themselves; NaN where they were not scored


@dataclass(frozen=True)
class EvolutionSettings:
    """What an evolution keeps from its begin to its end."""

    sigma: float
    """width of a perturbation at first, in scales of the weights"""
    cost: float | None
    """share by which perturbations are to worsen the objective; None: sigma stays"""
    momentum: float


class Evolution:
    """The state between iterations: momentum, width, and the size of differences."""

    def __init__(self, settings: EvolutionSettings, seed: int, size: int, inputs: int) -> None:
        """For `size` weights and inputs of `inputs` settings."""
        self._settings = settings
        self._seed = seed
        self._velocity: Float64 = np.zeros(size)
        self.sigma = settings.sigma
        self._typical: Float64 = np.zeros((inputs, 2))
        """sums over the pairs of a setting, the older the less: of the square roots of the
        differences' sizes, which few large ones do not dominate, and of 1"""

    def step(
        self,
        theta: Float32,
        scale: Float32,
        scored: Scored,
        setting: Int64,
        rate: float,
        iteration: int,
    ) -> tuple[Float32, dict[str, float]]:
        """Return the moved (P,) weights, and figures of the iteration.

        Args:
            theta: (P,) the weights that were perturbed.
            scale: (P,) diagonal of D; 0 where a weight is fixed.
            scored: of the pairs.
            setting: (K,) of each pair.
            rate: length of the step, in widths of a perturbation.
            iteration: from 0.
        """
        settings = self._settings

        # Estimate the direction in which the objective falls.
        d = scored.plus - scored.minus
        self._typical *= _MEMORY
        np.add.at(self._typical, setting, np.stack([np.sqrt(np.abs(d)), np.ones(len(d))], axis=1))
        s = np.square(self._typical[setting, 0] / self._typical[setting, 1])
        z = np.divide(d, s, where=s > 0, out=np.zeros_like(d)).clip(-_LARGEST, _LARGEST)
        g = np.zeros(len(theta))
        for pair in range(len(d)):
            g -= z[pair] * direction(self._seed, iteration, pair, len(theta))
        is_free = scale > 0
        g[~is_free] = 0.0
        norm = math.sqrt(float(np.square(g).sum()))  # not by BLAS, whose sums depend on its threads
        unit = g * (math.sqrt(int(is_free.sum())) / norm) if norm > 0 else g

        # Move, then adapt the width to the cost of a perturbation.
        self._velocity = settings.momentum * self._velocity + (1 - settings.momentum) * unit
        moved = (theta + rate * self.sigma * scale * self._velocity).astype(np.float32)
        cost = float(np.nanmedian((scored.plus + scored.minus) / 2 - scored.centre))
        metrics = {
            "sigma": self.sigma,
            "rate": rate,
            "perturbation_cost": 100 * cost,
            "pair_difference": 100 * float(np.median(np.abs(d))),
            "log_objective": float((scored.plus + scored.minus).mean() / 2),
        }
        if settings.cost is not None:
            # The cost grows with the square of sigma; half of the correction, as it is noisy.
            change = (settings.cost / max(cost, 1e-9)) ** 0.25
            change = min(max(change, 1 / _WIDEST_CHANGE), _WIDEST_CHANGE)
            self.sigma = min(self.sigma * change, _WIDEST * settings.sigma)
        return moved, metrics

    def state(self) -> dict[str, Float64]:
        """Return all that the next step depends on."""
        return {
            "velocity": self._velocity.copy(),
            "sigma": np.array([self.sigma]),
            "typical": self._typical.copy(),
        }

    def load(self, state: Mapping[str, Float64]) -> None:
        """Continue from what `state` gave."""
        self._velocity = state["velocity"].copy()
        self.sigma = float(state["sigma"][0])
        self._typical = state["typical"].copy()


def direction(seed: int, iteration: int, pair: int, size: int) -> Float32:
    """(P,) the direction epsilon of a pair."""
    seeds = np.random.SeedSequence(seed, spawn_key=(iteration, pair, _STREAM))
    return np.random.default_rng(seeds).standard_normal(size, dtype=np.float32)
