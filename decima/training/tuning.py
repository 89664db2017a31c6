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

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.objectives import Objective, objective_named
from decima.registry import HEURISTICS, Heuristic, Parameters
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.rl.statistics import Estimate, geometric_percent
from decima.training.descent import DescentProgress, descend
from spark_sim.metrics import measure
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
_TOGETHER = 5
"""sequences of one task: more than a cluster's overhead, and enough tasks for many workers"""
_MAX_HELD_BACK = 100_000
_MAX_PARAMETER = 1e6


class Candidates:
    """Parameters of heuristics on numbered sequences, played by a pool of workers.

    All candidates of a call meet the same arrivals and task durations. Unfinished jobs count with
    their age, so figures of one call may be compared.
    """

    def __init__(
        self, settings: Sequence[EvaluationConfig], pool: WorkerPool, objective: Objective
    ) -> None:
        different = {setting.workload_key(): setting for setting in settings}
        workloads = {key: Workload.of(setting) for key, setting in different.items()}
        self._settings = SentOnce(
            [(setting, workloads[setting.workload_key()]) for setting in settings]
        )
        self._pool = pool
        self._objective = objective
        self._reference: dict[range, Float64] = {}

    def play(
        self, candidates: Sequence[tuple[str, Parameters]], numbers: range, label: str = "trials"
    ) -> Float64:
        """(C, settings, S) objective of heuristics with parameters, the candidates, by sequence."""
        settings = len(self._settings.value)
        tasks = {
            (row, setting, first): _Task(
                *candidate, setting, numbers[first : first + _TOGETHER], self._objective
            )
            for row, candidate in enumerate(candidates)
            for setting in range(settings)
            for first in range(0, len(numbers), _TOGETHER)
        }
        parts = [part for _, part in self._pool.map(_play, self._settings, tasks, label=label)]
        return np.concatenate(parts).reshape(len(candidates), settings, len(numbers))

    def logs(
        self, policy: str, candidates: Sequence[Parameters], numbers: range, label: str = "trials"
    ) -> Float64:
        """(C, settings, S) logarithm of the objective over that of the reference.

        Of ratios, so that no setting and no heavy-tailed sequence outweighs the others.
        """
        played = [(policy, parameters) for parameters in candidates]
        if numbers not in self._reference:
            reference, *figures = self.play([(REFERENCE, {}), *played], numbers, label)
            self._reference[numbers] = reference
        else:
            figures = list(self.play(played, numbers, label))
        return np.asarray(np.log(np.array(figures) / self._reference[numbers]))

    def scores(
        self, policy: str, candidates: Sequence[Parameters], numbers: range, label: str = "trials"
    ) -> list[float]:
        """Geometric mean of the objective over that of the reference, of each candidate."""
        logs = self.logs(policy, candidates, numbers, label)
        return [float(np.exp(of_candidate.mean())) for of_candidate in logs]


class _Task(NamedTuple):
    """Sequences of one setting, to be played under one candidate."""

    policy: str
    parameters: Parameters
    setting: int
    numbers: range
    objective: Objective


def _play(settings: SentOnce[list[tuple[EvaluationConfig, Workload]]], task: _Task) -> Float64:
    """(sequences,) the objective of each."""
    config, workload = settings.value[task.setting]
    policy = Heuristic(task.policy, task.parameters)
    values = []
    for number in task.numbers:
        simulator = prepare(workload, config, number)
        policy.play(simulator)
        values.append(task.objective.of(measure(simulator.state)))
    return np.array(values)


@dataclass(frozen=True, eq=False)
class Fitted(ABC):
    """Parameters that a search has found, and their check on held-out sequences."""

    found: Parameters
    """the best that the search found"""

    @property
    @abstractmethod
    def policy(self) -> str:
        """Name of the heuristic."""

    @property
    @abstractmethod
    def change_logs(self) -> Float64:
        """(H,) logarithm of the objective with `found` over that with the shipped parameters."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """JSON-like values, `parameters_json` among them."""

    @property
    def held_back(self) -> Estimate:
        """Change from shipped to found parameters on held-out sequences: geometric percent."""
        return geometric_percent(self.change_logs)

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

    def held_back_json(self, **figures: float) -> dict[str, Any]:
        """Return the result of the check, and more figures, as JSON-like values."""
        return {
            "percent_against_shipped": self.held_back.mean,
            "ci95_percent": self.held_back.ci95,
            **figures,
            "kept": "found" if self.is_better else "shipped",
        }


@dataclass(frozen=True, eq=False)
class Tuned(Fitted):
    """Result of `tune`."""

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
    def policy(self) -> str:
        """Name of the heuristic."""
        return self.config.policies[0]

    @property
    def change_logs(self) -> Float64:
        """(H,) as in `Fitted`."""
        return np.asarray(np.log(self.found_figures / self.shipped_figures))

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
                **self.held_back_json(**{self.config.objective: self.figure}),
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
    candidates = Candidates([config], pool, objective_named(config.objective))
    first = FIRST_TRAINING_SEQUENCE
    training = range(first, first + config.sequences)
    held_out = range(training.stop, training.stop + held_back)
    shipped = HEURISTICS[policy].defaults
    best = descend(
        policy,
        lambda tried: candidates.scores(policy, tried, training),
        rounds=_MAX_ROUNDS,
        progress=progress,
    )
    compared = [(policy, best.parameters), (policy, shipped)]
    found_figures, shipped_figures = candidates.play(compared, held_out)[:, 0]
    return Tuned(
        found=best.parameters,
        ratio=best.score,
        shipped_ratio=candidates.scores(policy, [shipped], training)[0],
        found_figures=found_figures,
        shipped_figures=shipped_figures,
        trials=best.scores,
        config=config,
    )


def write_tuned(tuned: Fitted, path: Path) -> None:
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
