"""The search over the rule's weights, by evolution strategies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from decima.heuristics.es_rule import PARAMETERS
from decima.registry import HEURISTICS
from decima.rl.evolution import Evolution, EvolutionSettings, Scored, direction
from traces.numbers import Float64

_COST = 0.01  # share by which perturbations worsen the score
_MOMENTUM = 0.8
_HALVING = 40  # generations after which the first rate, 1, is halved; then it falls as 1 / n


def start(kind: str, policy: str) -> Float64:
    """Return the weights that a search for `policy` begins with, a `config.Start`."""
    if kind == "shipped":
        return np.array([HEURISTICS[policy].defaults[name] for name in PARAMETERS])
    # Near `tuned_srw`: the shortest job first, under a limit that grows with its work. One hidden
    # unit is the gate: open while the job holds less than 1.5 fair shares times its relative work
    # to the power 0.2. One is the score. The others read one feature each, with output weights of
    # 0.
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
    """The search: a pure function of its settings and of the scores."""

    def __init__(
        self, begin: Float64, sigma: float, pairs: int, seed: int, free: NDArray[np.bool_]
    ) -> None:
        settings = EvolutionSettings(sigma, _COST, _MOMENTUM)
        self._evolution = Evolution(settings, seed, len(begin), inputs=1)
        self._begin = begin
        self._weights = begin.astype(np.float32)
        self._scale = free.astype(np.float32)
        self._pairs, self._seed = pairs, seed
        self._generation = 0

    @property
    def mean(self) -> Float64:
        """(P,) the weights that candidates are drawn around."""
        return np.where(self._scale > 0, self._weights, self._begin)

    @property
    def distance(self) -> float:
        """Euclidean distance of the mean from where the search began."""
        return math.sqrt(float(np.square(self.mean - self._begin).sum()))

    def ask(self) -> list[Float64]:
        """The next generation's candidates, (P,) weights each: both of each pair, then the mean."""
        candidates: list[Float64] = []
        for pair in range(self._pairs):
            epsilon = direction(self._seed, self._generation, pair, len(self._scale))
            step = np.float32(self._evolution.sigma) * self._scale * epsilon
            candidates += [self.mean + step, self.mean - step]
        return [*candidates, self.mean]

    def tell(self, scores: Sequence[float]) -> None:
        """Move, by the scores of the last candidates; less is better."""
        *paired, centre = np.log(scores)
        scored = Scored(np.array(paired[::2]), np.array(paired[1::2]), np.full(self._pairs, centre))
        rate = 1 / (1 + self._generation / _HALVING)
        setting = np.zeros(self._pairs, np.int64)
        self._weights, _ = self._evolution.step(
            self._weights, self._scale, scored, setting, rate, self._generation
        )
        self._generation += 1
