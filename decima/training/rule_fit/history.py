"""History of a fit, from which it resumes exactly where it stopped.

The search is a pure function of its settings and scores. So its state need not be stored: a new
search with the same scores reaches the same point, in a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decima.errors import ConfigError
from decima.training.rule_fit.config import RuleFitConfig
from traces.files.numbers import is_number
from traces.files.reading import check_format, read_json
from traces.files.writing import write_json

FORMAT = "decima-rule-fit"
VERSION = 2


@dataclass(frozen=True)
class Generation:
    """One generation."""

    scores: tuple[float, ...]
    """scores of its candidates, in the search's order"""
    distance: float
    """of the mean after it from the start; checks that a repetition is equal"""
    validation: float | None
    """score of the mean after it on the validation sequences; None if it was not compared"""


@dataclass
class History:
    """The generations of a fit."""

    config: Mapping[str, Any]  # `RuleFitConfig.to_json`
    start_score: float  # score of the start on the validation sequences
    generations: list[Generation] = field(default_factory=list)
    elapsed_s: float = 0.0

    def write(self, path: Path) -> None:
        """Write as JSON, whole or not at all."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "config": dict(self.config),
            "start_score": self.start_score,
            "elapsed_s": self.elapsed_s,
            "generations": [
                [list(row.scores), row.distance, row.validation] for row in self.generations
            ],
        }
        write_json(path, content, indent=None)


def read_history(path: Path, config: RuleFitConfig) -> History:
    """Read a file of `History.write`; ConfigError if it is none, or of other settings."""
    content = read_json(path, ConfigError)
    words = "not the state of a `decima fit-rule`"
    check_format(content, path, (FORMAT, VERSION), words, ConfigError)
    try:
        history = History(
            config=dict(content["config"]),
            start_score=_number(content["start_score"]),
            generations=[_generation(row, 2 * config.pairs + 1) for row in content["generations"]],
            elapsed_s=_number(content["elapsed_s"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: damaged: {error}") from error
    given = config.to_json()
    for label in sorted(given.keys() | history.config.keys()):
        stored = history.config.get(label)
        if stored != given.get(label):
            raise ConfigError(f"{path}: was begun with {label} {stored}, not {given.get(label)}")
    return history


def _generation(row: Any, candidates: int) -> Generation:
    scores, distance, validation = row
    if len(scores) != candidates:
        raise ValueError(f"a generation of {len(scores)} scores, not {candidates}")
    if not all(_number(score) > 0 for score in scores):
        raise ValueError("a score is not positive")
    compared = None if validation is None else _number(validation)
    return Generation(tuple(_number(score) for score in scores), _number(distance), compared)


def _number(value: Any) -> float:
    if not is_number(value):
        raise ValueError(f"{value!r:.40} is not a finite number")
    return float(value)
