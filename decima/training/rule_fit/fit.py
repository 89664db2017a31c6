"""The fit: generations on fresh sequences, means compared on validation sequences, and the best
checked on held-out ones, as the lowest of many comparisons is also low by chance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from decima.errors import ConfigError
from decima.registry import HEURISTICS, Parameters
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import WorkerPool
from decima.rl.statistics import Estimate, geometric_percent
from decima.training.rule_fit.config import REFERENCE, RuleFitConfig
from decima.training.rule_fit.history import Generation, History
from decima.training.rule_fit.scores import CandidateScorer
from decima.training.rule_fit.search import Search, free_weights, start
from decima.training.tuning import FIRST_TRAINING_SEQUENCE, parameters_json
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
class _Best:
    """The best mean so far."""

    weights: Float64
    score: float
    generation: int


@dataclass(frozen=True, eq=False)
class FittedRule:
    """The fitted weights, and their check on held-out sequences."""

    found: Parameters
    """the best of the means compared"""
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
    def is_better(self) -> bool:
        """True if the fitted weights beat the shipped ones on held-out sequences."""
        return self.held_back.mean < 0

    @property
    def held_back(self) -> Estimate:
        """Change from shipped to fitted weights on held-out sequences: geometric mean, percent."""
        return geometric_percent(self.found_logs - self.shipped_logs)

    @property
    def held_back_score(self) -> float:
        """Held-out score of the fitted weights against strict fair, as `score`."""
        return float(np.exp(self.found_logs.mean()))

    @property
    def shipped_score(self) -> float:
        """The shipped weights against strict fair there."""
        return float(np.exp(self.shipped_logs.mean()))

    @property
    def parameters(self) -> Parameters:
        """Parameters to use: the fitted ones if they are better, else the shipped ones."""
        return self.found if self.is_better else HEURISTICS[self.config.policy].defaults

    def to_json(self) -> dict[str, Any]:
        ratio = f"{self.config.objective}_ratio"
        return {
            **parameters_json(self.config.policy, self.parameters),
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
                "percent_against_shipped": self.held_back.mean,
                "ci95_percent": self.held_back.ci95,
                "kept": "found" if self.is_better else "shipped",
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
    scorer = CandidateScorer(config, pool)
    if history is None:
        begin = config.parameters(start(config.start, config.policy))
        first = scorer.scores([begin], config.validation_numbers(), "start")
        history = History(config.to_json(), float(first[0]))
    begun_s = history.elapsed_s
    fit = _Fit(config, scorer, history)
    fit.repeat()
    while True:
        if state is not None:
            history.write(state)
        if progress is not None:
            progress(history)
        if budget.is_spent(len(history.generations), history.elapsed_s - begun_s):
            return fit.result()
        fit.advance()


class _Fit:
    """A fit under way."""

    def __init__(self, config: RuleFitConfig, scorer: CandidateScorer, history: History) -> None:
        self._config = config
        self._scorer = scorer
        self._history = history
        begin = start(config.start, config.policy)
        free = free_weights(config.only)
        self._search = Search(begin, config.sigma, config.pairs, config.seed, free)
        self._best = _Best(begin, history.start_score, 0)

    def repeat(self) -> None:
        """Replay the search to the end of the history."""
        for number, row in enumerate(self._history.generations, start=1):
            self._search.tell(row.scores)
            if not math.isclose(self._search.distance, row.distance, rel_tol=_SAME):
                raise ConfigError(
                    f"generation {number} cannot be repeated: moved by {self._search.distance:g}, "
                    f"stored {row.distance:g} (a damaged state, or one of other library versions)"
                )
            self._compare(row.validation, number)

    def advance(self) -> None:
        """Run one more generation."""
        began_s = time.monotonic()
        number = len(self._history.generations) + 1
        candidates = self._search.ask()
        numbers = self._config.generation_numbers(number)
        every = [self._config.parameters(one) for one in candidates]
        scores = self._scorer.scores(every, numbers, f"generation {number}")
        self._search.tell(scores.tolist())
        validation = None
        if number % self._config.validate_every == 0:
            validation = self._validated_mean()
            self._compare(validation, number)
        row = Generation(tuple(scores.tolist()), self._search.distance, validation)
        self._history.generations.append(row)
        self._history.elapsed_s += time.monotonic() - began_s

    def result(self) -> FittedRule:
        """Compare the last mean too, then check the best one on the held-out sequences."""
        generations = self._history.generations
        if generations and generations[-1].validation is None:
            self._compare(self._validated_mean(), len(generations))
        found = self._config.parameters(self._best.weights)
        shipped = HEURISTICS[self._config.policy].defaults
        held_back = self._config.held_back_numbers()
        logs = self._scorer.logs([found, shipped], held_back, "held back").mean(axis=1)
        return FittedRule(
            found=found,
            score=self._best.score,
            found_logs=logs[0],
            shipped_logs=logs[1],
            start_score=self._history.start_score,
            best_generation=self._best.generation,
            generations=len(generations),
            config=self._config,
        )

    def _validated_mean(self) -> float:
        return self._validated(self._config.parameters(self._search.mean))

    def _validated(self, parameters: Parameters) -> float:
        numbers = self._config.validation_numbers()
        return float(self._scorer.scores([parameters], numbers, "validation")[0])

    def _compare(self, validation: float | None, generation: int) -> None:
        if validation is not None and validation < self._best.score:
            self._best = _Best(self._search.mean, validation, generation)
