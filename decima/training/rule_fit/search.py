"""The search: CMA-ES over the weights.

CMA-ES (covariance matrix adaptation evolution strategy; Hansen and Ostermeier 2001) samples
candidates around a mean, and moves and stretches that distribution towards the best of them; here
along the axes alone (Ros and Hansen 2008), since 295 weights are too many for their covariances.
"""

from __future__ import annotations

from collections.abc import Sequence

import cma
import numpy as np
from numpy.typing import NDArray

from decima.heuristics.es_rule import PARAMETERS
from decima.registry import HEURISTICS
from traces.numbers import Float64

_SEARCH = 1_000_000_007
# Spawn key of the search's own stream: no sequence has this number.


def start(kind: str, policy: str) -> Float64:
    """Return the weights that a search for `policy` begins with, a `config.Start`."""
    if kind == "shipped":
        return np.array([HEURISTICS[policy].defaults[name] for name in PARAMETERS])
    return _like_tuned_srw()


def _like_tuned_srw() -> Float64:
    """Weights near `tuned_srw`: the shortest job first, under a limit that grows with its work.

    One hidden unit is the gate: open while the job holds less than 1.5 fair shares times its
    relative work to the power 0.2. One is the score. The others read one feature each, with output
    weights of 0.
    """
    weights = dict.fromkeys(PARAMETERS, 0.0)
    weights |= {"share_0": -3.0, "work_0": 1.2, "bias_0": 1.5, "gate_0": 2.0}
    weights |= {"work_1": -0.7, "rank_1": -0.3, "score_1": 1.0}
    read = ("rank", "local", "tasks", "width", "jobs", "runnable")
    weights |= {f"{feature}_{unit}": 1.0 for unit, feature in enumerate(read, start=2)}
    return np.array([weights[name] for name in PARAMETERS])


def free_weights(only: Sequence[str]) -> NDArray[np.bool_]:
    """(P,) which weights belong to these parts, some of `config.PARTS`; all if none is named."""
    return np.array([not only or bool(_parts(name) & set(only)) for name in PARAMETERS])


def _parts(name: str) -> set[str]:
    part, _, unit = name.rpartition("_")
    return {name} if name == "gate_bias" else {part, f"unit_{unit}"}


class Search:
    """A CMA-ES run: a pure function of its settings and of the scores."""

    def __init__(
        self, begin: Float64, sigma: float, population: int, seed: int, free: NDArray[np.bool_]
    ) -> None:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_SEARCH,)))
        options = {
            "popsize": population,
            "CMA_diagonal": True,
            "randn": lambda *shape: rng.standard_normal(shape),
            "seed": np.nan,  # leave numpy's global generator alone
            "verbose": -9,
            "verb_log": 0,
        }
        self._begin = begin
        self._free = free
        self._strategy = cma.CMAEvolutionStrategy(begin[free], sigma, options)
        self._asked: Sequence[Float64] = ()

    @property
    def mean(self) -> Float64:
        """(P,) centre of the distribution."""
        return self._whole(self._strategy.mean)

    @property
    def sigma(self) -> float:
        """Overall width of the distribution."""
        return float(self._strategy.sigma)

    def ask(self) -> Sequence[Float64]:
        """The candidates of the next generation, (P,) weights each."""
        self._asked = self._strategy.ask()
        return [self._whole(one) for one in self._asked]

    def _whole(self, free: Float64) -> Float64:
        found = self._begin.copy()
        found[self._free] = free
        return found

    def tell(self, scores: Sequence[float]) -> None:
        """Update the distribution with the scores of the last candidates; less is better."""
        self._strategy.tell(self._asked, list(scores))
