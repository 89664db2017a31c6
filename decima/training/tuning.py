"""`decima tune`: fit the parameters of a heuristic to a workload.

Candidates are compared on training sequences that no evaluation draws (with arrivals from a file or
a recording, only task durations differ from those of an evaluation). All candidates play the same
sequences with the same task durations. The score is the geometric mean of the objective relative
to strict fair's on the same sequence. A plain mean would be dominated by the sequences with the few
largest jobs.

The best is then compared with the shipped parameters on held-out sequences, and is saved only if it
is better there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig
from decima.objectives import objective_named
from decima.registry import HEURISTICS, Heuristic, Parameters
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import WorkerPool
from decima.rl.statistics import Estimate, geometric_percent
from decima.training.candidates import Candidates
from decima.training.descent import DescentProgress, descend
from traces.files.reading import check_format, read_json
from traces.files.writing import write_json
from traces.numbers import Float64

FIRST_TRAINING_SEQUENCE = 1_000_000
"""training sequences are numbered from here, evaluations from 0 (and have at most this many)"""

FORMAT = "decima-tuned"
VERSION = 1
HELD_BACK = 40  # sequences on which the parameters found are compared with the shipped ones
REFERENCE = "strict_fair"  # heuristic whose objective divides that of a candidate

_MAX_ROUNDS = 4
_MAX_HELD_BACK = 100_000
_MAX_PARAMETER = 1e6


@dataclass(frozen=True, eq=False)
class Tuned:
    """Result of a search, and its check on held-out sequences."""

    policy: str
    found: Parameters
    """the best on the training sequences"""
    ratio: float
    """geometric mean of their objective over the reference's on the training sequences"""
    shipped_ratio: float
    """ratio with the shipped parameters"""
    found_figures: Float64
    """(H,) objective on each held-out sequence"""
    shipped_figures: Float64
    """(H,) with the shipped parameters"""
    trials: int
    config: EvaluationConfig

    @property
    def held_back(self) -> Estimate:
        """Change from shipped to found parameters on held-out sequences: geometric percent."""
        return geometric_percent(np.log(self.found_figures / self.shipped_figures))

    @property
    def is_better(self) -> bool:
        """True if the found parameters beat the shipped ones on held-out sequences."""
        return self.held_back.mean < 0

    @property
    def shipped(self) -> Parameters:
        """The parameters of the package."""
        return HEURISTICS[self.policy].defaults

    @property
    def parameters(self) -> Parameters:
        """Parameters to use: the found ones if they are better, else the shipped ones."""
        return self.found if self.is_better else self.shipped

    @property
    def figure(self) -> float:
        """Objective with `parameters`, mean over the held-out sequences."""
        return float((self.found_figures if self.is_better else self.shipped_figures).mean())

    def to_json(self) -> dict[str, Any]:
        return {
            **parameters_json(self.policy, self.parameters),
            "training": {
                "relative_to": REFERENCE,
                "objective": self.config.objective,
                "ratio": self.ratio,
                "shipped_ratio": self.shipped_ratio,
                "found": dict(self.found),
                "trials": self.trials,
                "first_sequence": FIRST_TRAINING_SEQUENCE,
                "sequences": self.config.sequences,
            },
            "held_back": {
                "first_sequence": FIRST_TRAINING_SEQUENCE + self.config.sequences,
                "sequences": len(self.found_figures),
                "percent_against_shipped": self.held_back.mean,
                "ci95_percent": self.held_back.ci95,
                self.config.objective: self.figure,
                "kept": "found" if self.is_better else "shipped",
            },
            "config": self.config.to_json(),
        }


def parameters_json(policy: str, parameters: Parameters) -> dict[str, Any]:
    """Return a file's content for `read_tuned`; writers add how the parameters were found."""
    return {"format": FORMAT, "version": VERSION, "policy": policy, "parameters": dict(parameters)}


def tune(
    policy: str,
    config: EvaluationConfig,
    *,
    held_back: int = HELD_BACK,
    pool: WorkerPool = HERE,
    progress: DescentProgress | None = None,
) -> Tuned:
    """Search the parameters of `policy` for the least objective of `config`.

    `held_back` sequences beside those of `config` decide whether the result is saved. Raises
    ConfigError if the policy has nothing to tune.
    """
    if policy not in HEURISTICS or not HEURISTICS[policy].search:
        tunable = ", ".join(name for name, spec in HEURISTICS.items() if spec.search)
        raise ConfigError(
            f"policy {policy!r} has nothing to tune; these have: {tunable} (es_rule: see "
            "`decima fit-rule`)"
        )
    if not 1 <= held_back <= _MAX_HELD_BACK:
        raise ConfigError(f"held-back sequences must lie in 1..{_MAX_HELD_BACK:,}, got {held_back}")
    config = replace(config, policies=(policy,), parameters={})
    sequences = Candidates([config], pool)
    first = FIRST_TRAINING_SEQUENCE
    training = range(first, first + config.sequences)
    kept_back = range(training.stop, training.stop + held_back)
    objective = objective_named(config.objective)
    reference = sequences.play([(REFERENCE, {})], training, objective)[0, 0]

    def scores(candidates: list[Parameters]) -> list[float]:
        played = sequences.play([(policy, one) for one in candidates], training, objective)[:, 0]
        return [float(np.exp(np.log(figures / reference).mean())) for figures in played]

    shipped = HEURISTICS[policy].defaults
    best = descend(policy, scores, rounds=_MAX_ROUNDS, progress=progress)
    compared = [(policy, best.parameters), (policy, shipped)]
    found, shipped_figures = sequences.play(compared, kept_back, objective)[:, 0]
    return Tuned(
        policy=policy,
        found=best.parameters,
        ratio=best.score,
        shipped_ratio=scores([shipped])[0],
        found_figures=found,
        shipped_figures=shipped_figures,
        trials=best.scores,
        config=config,
    )


class HasJson(Protocol):
    """Protocol of a result that is written to a file."""

    def to_json(self) -> dict[str, Any]:
        """JSON-like values, `parameters_json` among them."""
        ...


def write_tuned(tuned: HasJson, path: Path) -> None:
    """Write `tuned` as JSON, whole or not at all."""
    write_json(path, tuned.to_json())


def read_tuned(path: Path) -> tuple[str, Mapping[str, float]]:
    """Read policy and parameters from a file of `write_tuned`; ConfigError if it is none."""
    content = read_json(path, ConfigError)
    words = "not a file of `decima tune` or `decima fit-rule`"
    check_format(content, path, (FORMAT, VERSION), words, ConfigError)
    policy, parameters = content.get("policy"), content.get("parameters")
    if not isinstance(policy, str) or not isinstance(parameters, dict):
        raise ConfigError(f"{path}: policy or parameters are missing")
    for label, value in parameters.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{path}: parameter {label!r} is {value!r}, not a number")
        if not abs(value) <= _MAX_PARAMETER:
            raise ConfigError(f"{path}: parameter {label!r} must lie within {_MAX_PARAMETER:g}")
    Heuristic(policy, parameters)
    return policy, parameters
