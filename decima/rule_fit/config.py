"""Settings of `decima fit-rule`, and how its sequences are numbered."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from decima.evaluation.config import ConfigError, EvaluationConfig
from decima.tuning import FIRST_TRAINING_SEQUENCE

POLICY = "es_rule"
REFERENCE = "strict_fair"
"""scores are average JCTs divided by that of this heuristic on the same sequence"""

S_PER_MINUTE = 60.0
_MAX_SIGMA = 10.0


@dataclass(frozen=True)
class RuleFitConfig:
    """What the rule is fitted to, and how."""

    workload: EvaluationConfig
    """trace, cluster and arrivals; `sequences` of each mean gap are drawn for each generation"""
    interarrival_s: tuple[float, ...]
    """mean times between arrivals, all of them in every generation"""
    population: int = 24
    """candidates in each generation"""
    sigma: float = 0.3
    """standard deviation of the first generation's weights"""
    validation: int = 30
    """sequences of each mean gap on which the means of generations are compared"""
    validate_every: int = 10
    """generations between two comparisons"""

    def __post_init__(self) -> None:
        if not self.interarrival_s:
            raise ConfigError("no mean time between arrivals to fit to")
        twice = [gap for gap in self.interarrival_s if self.interarrival_s.count(gap) > 1]
        if twice:
            raise ConfigError(f"interarrival {twice[0]} s is given twice")
        if self.workload.arrivals == "batch" and len(self.interarrival_s) > 1:
            raise ConfigError("a batch has no arrivals: several --interarrival contradict it")
        if not 4 <= self.population <= 10_000:
            raise ConfigError(f"population must lie in 4..10,000, got {self.population}")
        if not 0 < self.sigma <= _MAX_SIGMA:
            raise ConfigError(f"sigma must lie in 0..{_MAX_SIGMA:g}, got {self.sigma}")
        for label in ("validation", "validate_every"):
            if not 1 <= getattr(self, label) <= 100_000:
                raise ConfigError(f"{label} must lie in 1..100,000, got {getattr(self, label)}")
        self.workloads()

    def workloads(self) -> tuple[EvaluationConfig, ...]:
        """The workload at each mean gap."""
        return tuple(
            replace(self.workload, policies=(REFERENCE, POLICY), parameters={}, interarrival_s=gap)
            for gap in self.interarrival_s
        )

    def validation_numbers(self) -> range:
        """Numbers of the sequences on which means are compared; no generation is fitted to them."""
        return range(FIRST_TRAINING_SEQUENCE, FIRST_TRAINING_SEQUENCE + self.validation)

    def generation_numbers(self, generation: int) -> range:
        """Numbers of the sequences of one generation (from 1); every generation has its own."""
        first = self.validation_numbers().stop + (generation - 1) * self.workload.sequences
        return range(first, first + self.workload.sequences)

    def to_json(self) -> dict[str, Any]:
        """All settings as JSON-like values."""
        workload = self.workload.to_json()
        for label in ("policies", "parameters", "interarrival_s"):
            del workload[label]
        return {
            **workload,
            **{label: value for label, value in asdict(self).items() if label != "workload"},
            "interarrival_s": list(self.interarrival_s),
        }
