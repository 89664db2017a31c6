"""The fit: generations on fresh sequences, means compared on validation sequences, and the best
checked on held-out ones, as the lowest of many comparisons is also low by chance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from decima.errors import ConfigError
from decima.objectives import objective_named
from decima.registry import HEURISTICS
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import WorkerPool
from decima.training.rule_fit.config import REFERENCE, RuleFitConfig
from decima.training.rule_fit.history import Generation, History
from decima.training.rule_fit.search import Search, free_weights, start
from decima.training.tuning import (
    FIRST_TRAINING_SEQUENCE,
    Candidates,
    Fitted,
    parameters_json,
)
from traces.numbers import S_PER_MINUTE, Float64

_SAME = 1e-6
# Relative tolerance: rounding differs between machines, but another search differs at once.


@dataclass(frozen=True)
class Budget:
    """Limits of a fit; the first one reached ends it."""

    generations: int | None = None
    minutes: float | None = None
    """wall time of this session; the result then depends on the machine"""

    def __post_init__(self) -> None:
        if self.generations is None and self.minutes is None:
            raise ConfigError("neither generations nor minutes: the fit would never end")
        if self.generations is not None and self.generations < 1:
            raise ConfigError(f"generations must be 1 or more, got {self.generations}")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise ConfigError(f"minutes must be positive, got {self.minutes}")

    def is_spent(self, generations: int, session_s: float) -> bool:
        """Return whether a limit on generations or on this session's time is reached."""
        if self.generations is not None and generations >= self.generations:
            return True
        return self.minutes is not None and session_s >= S_PER_MINUTE * self.minutes


@dataclass(frozen=True, eq=False)
class FittedRule(Fitted):
    """The fitted weights, the best of the means compared."""

    score: float
    """objective of the weights over strict fair's, geometric mean over settings and
    validation sequences
    """
    start_score: float
    """score of the weights that the search began with"""
    found_logs: Float64
    """(H,) logarithm of the same ratio on each held-out sequence, mean over settings"""
    shipped_logs: Float64
    """(H,) of the weights in the package"""
    best_generation: int
    """generation whose mean these weights are; 0 is the start"""
    generations: int
    config: RuleFitConfig

    @property
    def policy(self) -> str:
        """Name of the rule."""
        return self.config.policy

    @property
    def change_logs(self) -> Float64:
        """(H,) as in `Fitted`."""
        return self.found_logs - self.shipped_logs

    @property
    def held_back_score(self) -> float:
        """Held-out score of the fitted weights against strict fair, as `score`."""
        return float(np.exp(self.found_logs.mean()))

    @property
    def shipped_score(self) -> float:
        """The shipped weights against strict fair there."""
        return float(np.exp(self.shipped_logs.mean()))

    def to_json(self) -> dict[str, Any]:
        ratio = f"{self.config.objective}_ratio"
        return {
            **parameters_json(self.policy, self.parameters),
            "training": {
                "relative_to": REFERENCE,
                ratio: self.score,
                f"start_{ratio}": self.start_score,
                "best_generation": self.best_generation,
                "generations": self.generations,
                "first_sequence": FIRST_TRAINING_SEQUENCE,
            },
            "held_back": {
                "first_sequence": self.config.held_back_numbers().start,
                "sequences": len(self.found_logs),
                ratio: self.held_back_score,
                f"shipped_{ratio}": self.shipped_score,
                **self.held_back_json(),
            },
            "config": self.config.to_json(),
        }


FitProgress = Callable[[History], None]  # called before the first generation and after each


def fit_rule(
    config: RuleFitConfig,
    budget: Budget,
    *,
    pool: WorkerPool = HERE,
    state: Path | None = None,
    history: History | None = None,
    progress: FitProgress | None = None,
) -> FittedRule:
    """Search the rule's weights for the least objective relative to strict fair.

    The best of the compared means (every few generations, with the start and the last) is checked
    against the shipped weights on held-out sequences. `state` is a file that is rewritten after
    each generation; `history` is read from it (`read_history`) to resume. Raises ConfigError if
    `history` leads elsewhere on this machine.
    """
    candidates = Candidates(config.workloads(), pool, objective_named(config.objective))
    policy = config.policy

    def validated(weights: Float64, label: str = "validation") -> float:
        numbers = config.validation_numbers()
        return candidates.scores(policy, [config.parameters(weights)], numbers, label)[0]

    begin = start(config.start, policy)
    if history is None:
        history = History(config.to_json(), validated(begin, "start"))
    search = Search(begin, config.sigma, config.pairs, config.seed, free_weights(config.only))
    best = (history.start_score, 0, begin)  # score, generation and mean; the first of equal ones
    for number, row in enumerate(history.generations, start=1):
        search.tell(row.scores)
        if not math.isclose(search.distance, row.distance, rel_tol=_SAME):
            raise ConfigError(
                f"generation {number} cannot be repeated: moved by {search.distance:g}, "
                f"stored {row.distance:g} (a damaged state, or one of other library versions)"
            )
        if row.validation is not None:
            best = min(best, (row.validation, number, search.mean), key=itemgetter(0))

    session_s = 0.0
    while True:
        if state is not None:
            history.write(state)
        if progress is not None:
            progress(history)
        if budget.is_spent(len(history.generations), session_s):
            break
        began_s = time.monotonic()
        number = len(history.generations) + 1
        tried = [config.parameters(weights) for weights in search.ask()]
        numbers = config.generation_numbers(number)
        scores = candidates.scores(policy, tried, numbers, f"generation {number}")
        search.tell(scores)
        validation = None
        if number % config.validate_every == 0:
            validation = validated(search.mean)
            best = min(best, (validation, number, search.mean), key=itemgetter(0))
        history.generations.append(Generation(tuple(scores), search.distance, validation))
        spent_s = time.monotonic() - began_s
        session_s += spent_s
        history.elapsed_s += spent_s

    number = len(history.generations)
    if history.generations and history.generations[-1].validation is None:
        best = min(best, (validated(search.mean), number, search.mean), key=itemgetter(0))
    best_score, best_generation, best_weights = best
    parameters = config.parameters(best_weights)
    compared = [parameters, HEURISTICS[policy].defaults]
    logs = candidates.logs(policy, compared, config.held_back_numbers(), "held back").mean(axis=1)
    return FittedRule(
        found=parameters,
        score=best_score,
        found_logs=logs[0],
        shipped_logs=logs[1],
        start_score=history.start_score,
        best_generation=best_generation,
        generations=number,
        config=config,
    )
