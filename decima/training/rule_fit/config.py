"""Settings of `decima fit-rule`, and how its sequences are numbered."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, get_args

from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig
from decima.heuristics.es_rule import HIDDEN, PARAMETERS, Features
from decima.objectives import check_objective
from decima.registry import HEURISTICS, Parameters
from decima.rl.study.settings import ABOVE_0, Range, Settings
from decima.training.tuning import FIRST_TRAINING_SEQUENCE
from traces.files.names import suggestion
from traces.numbers import Float64

ALONE, WITH_CLASSES = "es_rule", "es_classes"
"""policies that can be fitted: for equal executors, and for several classes"""
REFERENCE = "strict_fair"  # heuristic that scores are relative to, on the same sequence

Start = Literal["tuned_srw", "shipped"]
"""weights that resemble this heuristic, or those in the package of what is fitted"""

UNITS = tuple(f"unit_{unit}" for unit in range(HIDDEN))
PARTS = (*Features._fields, "bias", "gate", "score", "gate_bias", *UNITS)
"""parts of a rule: the weights of one feature in all hidden units, biases, outputs, or one unit"""

_Many = Annotated[int, Range(1, 100_000)]
_FIRST_HELD_BACK = 1_000_000_000
# Far beyond the sequences of any number of generations, which count up from the validation's.


@dataclass(frozen=True)
class RuleFitConfig(Settings):
    """Settings of fitting the rule."""

    ERROR = ConfigError

    settings: tuple[EvaluationConfig, ...]
    """traces, clusters and arrivals, all of them in every generation"""
    objective: str = "avg_jct"
    """what to minimise (`decima.objectives`); continuous arrivals have no useful makespan"""
    seed: int = 0
    sequences: _Many = 4
    """sequences of each setting, drawn for each generation"""
    start: Start = "tuned_srw"
    """weights that the search begins with"""
    only: tuple[str, ...] = ()
    """parts of the rule that the search may change, of `PARTS`; none named: all"""
    pairs: Annotated[int, Range(2, 10_000)] = 12
    """pairs of opposite candidates in each generation"""
    sigma: Annotated[float, Range(ABOVE_0, 10)] = 0.3
    """standard deviation of the first generation's weights"""
    validation: _Many = 30
    """validation sequences of each setting, and as many held-out ones
    """
    validate_every: _Many = 10
    """generations between two comparisons"""

    def check(self) -> None:
        """Refuse unknown names, and settings that do not go together."""
        if not self.settings:
            raise ConfigError("no setting to fit to")
        check_objective(self.objective)
        if len({bool(setting.classes) for setting in self.settings}) > 1:
            raise ConfigError("some settings have classes of executors and some have none")
        if self.start not in get_args(Start):
            near = suggestion(self.start, get_args(Start))
            raise ConfigError(f"start {self.start!r}{near}: there are {', '.join(get_args(Start))}")
        for part in self.only:
            if part not in PARTS:
                near = suggestion(part, PARTS)
                raise ConfigError(f"only {part!r:.60}{near}: there are {', '.join(PARTS)}")

    @property
    def policy(self) -> str:
        """Name of the policy that is fitted."""
        return WITH_CLASSES if self.settings[0].classes else ALONE

    def parameters(self, weights: Float64) -> Parameters:
        """Return the parameters of `policy`; `es_classes` keeps its others as shipped."""
        fitted = dict(zip(PARAMETERS, weights.tolist(), strict=True))
        return {**HEURISTICS[self.policy].defaults, **fitted}

    def workloads(self) -> tuple[EvaluationConfig, ...]:
        """The settings, each for the rule and its reference; drawn demands get their own seed."""
        names = (REFERENCE, self.policy)
        return tuple(
            replace(
                setting,
                policies=names,
                parameters={},
                objective=self.objective,
                seed=self.seed + (number if setting.demands == "drawn" else 0),
            )
            for number, setting in enumerate(self.settings)
        )

    def validation_numbers(self) -> range:
        """Numbers of the validation sequences, which no generation is fitted to."""
        return range(FIRST_TRAINING_SEQUENCE, FIRST_TRAINING_SEQUENCE + self.validation)

    def held_back_numbers(self) -> range:
        """Numbers of as many held-out sequences, to compare the result with the shipped weights."""
        return range(_FIRST_HELD_BACK, _FIRST_HELD_BACK + self.validation)

    def generation_numbers(self, generation: int) -> range:
        """Numbers of the sequences of one generation (from 1); every generation has its own."""
        first = self.validation_numbers().stop + (generation - 1) * self.sequences
        return range(first, first + self.sequences)

    def to_json(self) -> dict[str, Any]:
        """All settings as JSON-like values."""
        settings = [setting.to_json() for setting in self.settings]
        for setting in settings:
            for label in ("policies", "parameters", "sequences", "seed", "objective"):
                del setting[label]
        return {**asdict(self), "settings": settings, "only": list(self.only)}
