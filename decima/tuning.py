"""`decima tune`: fit the parameters of a heuristic to a workload.

Coordinate descent over the listed values of each parameter, on training sequences that no
evaluation draws (with arrivals from a file or a recording, only task durations differ from those
of an evaluation). All candidates meet the same sequences and the same task durations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from decima.evaluation.config import ConfigError, EvaluationConfig
from decima.evaluation.runner import Workload, simulate
from decima.policies import HEURISTICS, Heuristic, Parameters
from files.reading import read_json
from files.writing import write_json

FIRST_TRAINING_SEQUENCE = 1_000_000
"""training sequences are numbered from here, evaluations from 0 (and have at most this many)"""

FORMAT = "decima-tuned"
VERSION = 1
_MAX_ROUNDS = 4
_MAX_PARAMETER = 1e6


@dataclass(frozen=True)
class Tuned:
    """The parameters found, and what they gave on the training sequences."""

    policy: str
    parameters: Parameters
    avg_jct_s: float
    default_avg_jct_s: float
    """with the parameters that the package ships"""
    trials: int
    config: EvaluationConfig

    def to_json(self) -> dict[str, Any]:
        return {
            **parameters_json(self.policy, self.parameters),
            "training": {
                "avg_jct_s": self.avg_jct_s,
                "default_avg_jct_s": self.default_avg_jct_s,
                "trials": self.trials,
                "first_sequence": FIRST_TRAINING_SEQUENCE,
            },
            "config": self.config.to_json(),
        }


def parameters_json(policy: str, parameters: Parameters) -> dict[str, Any]:
    """What `read_tuned` needs of a file; writers add how the parameters were found."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "policy": policy,
        "parameters": dict(parameters),
    }


def tune(
    policy: str,
    config: EvaluationConfig,
    *,
    progress: Callable[[int, Parameters, float], None] | None = None,
) -> Tuned:
    """Search the parameters of `policy` for the least average JCT under `config`.

    Args:
        policy: a heuristic with parameters to search.
        config: the workload and the cluster; its policies and parameters are not used.
        progress: told the number of trials, the best parameters and their average JCT in s.

    Raises:
        ConfigError: the policy has nothing to tune.
    """
    if policy not in HEURISTICS or not HEURISTICS[policy].search:
        tunable = ", ".join(name for name, spec in HEURISTICS.items() if spec.search)
        raise ConfigError(
            f"policy {policy!r} has nothing to tune; these have: {tunable} (es_rule: see "
            "`decima fit-rule`)"
        )
    config = replace(config, policies=(policy,), parameters={})
    workload = Workload.of(config)
    known: dict[tuple[float, ...], float] = {}

    def score(parameters: Parameters) -> float:
        key = tuple(parameters.values())
        if key not in known:
            known[key] = _average_jct_s(workload, config, policy, parameters)
        return known[key]

    best: dict[str, float] = dict(HEURISTICS[policy].defaults)
    best_s = default_s = score(best)
    for _ in range(_MAX_ROUNDS):
        before = best
        for label, values in HEURISTICS[policy].search.items():
            for value in values:
                candidate = {**best, label: value}
                if score(candidate) < best_s:
                    best, best_s = candidate, score(candidate)
                if progress is not None:
                    progress(len(known), best, best_s)
        if best == before:
            break
    return Tuned(policy, best, best_s, default_s, len(known), config)


def _average_jct_s(
    workload: Workload, config: EvaluationConfig, policy: str, parameters: Parameters
) -> float:
    runs = (
        simulate(workload, config, Heuristic(policy, parameters), FIRST_TRAINING_SEQUENCE + number)
        for number in range(config.sequences)
    )
    return float(np.mean([run.metrics.avg_jct_s for run in runs]))


class HasJson(Protocol):
    """Something found that knows its file's content."""

    def to_json(self) -> dict[str, Any]:
        """JSON-like values, `parameters_json` among them."""
        ...


def write_tuned(tuned: HasJson, path: Path) -> None:
    """Write `tuned` as JSON, whole or not at all."""
    write_json(path, tuned.to_json())


def read_tuned(path: Path) -> tuple[str, Mapping[str, float]]:
    """The policy and the parameters that `write_tuned` stored.

    Raises:
        ConfigError: not such a file, or of another version.
    """
    content = read_json(path, ConfigError)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ConfigError(f"{path}: not a file of `decima tune` or `decima fit-rule`")
    if content.get("version") != VERSION:
        raise ConfigError(
            f"{path}: version {content.get('version')!r}, this reader knows {VERSION}"
        )
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
