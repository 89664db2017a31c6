"""`HEURISTICS`, every heuristic by name, and `Heuristic`, a compiled one as a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from decima.errors import PolicyError
from decima.heuristics import es_classes, es_rule
from decima.heuristics import run as compiled
from decima.heuristics.compiled import Numbers, Scratch, scratch_for
from decima.heuristics.graphene_plan import planned_places
from decima.heuristics.weights import shipped_weights
from decima.policy_names import SHIPPED_MODEL
from spark_sim import Action, IllegalActionError, Observation, Simulator, Status
from spark_sim.observation import PASS
from spark_sim.simulator import explain_illegal
from spark_sim.tables import ANY_LIMIT, FAIR_LIMIT, FULL_LIMIT, ILLEGAL, NONE, Table
from spark_sim.views import for_kernels
from traces.arrays import TraceArrays
from traces.files.names import suggestion

Parameters = Mapping[str, float]  # parameters of a heuristic, by name


@dataclass(frozen=True)
class HeuristicSpec:
    """One heuristic: its compiled code, its parameters and what they may be."""

    code: int
    """the number by which `decima.heuristics.run` knows it"""
    summary: str
    """one line for lists"""
    defaults: Mapping[str, float]
    """parameters by name, in the order of its compiled code"""
    search: Mapping[str, tuple[float, ...]]
    """the values that `decima tune` tries; empty if there is nothing to tune"""
    inseparable: bool = False
    """True if the parameters were fitted together, so that all or none must be given"""
    plans_ahead: bool = False
    """True if it needs the trace, to order each job's stages before the run"""
    idle_insensitive: bool = False
    """True if a session's results are equal with `Cluster.ask_while_idle` off"""
    limits: int = ANY_LIMIT
    """its limits in a session while slots are left over, if its choices for a job, and their order,
    depend on nothing but these and that job then"""


_ALPHAS = tuple(round(-2.0 + 0.1 * step, 1) for step in range(41))
_FACTORS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 3.0)
_POWERS = tuple(round(0.1 * step, 1) for step in range(-5, 16))
_WEIGHTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)

HEURISTICS: Mapping[str, HeuristicSpec] = {
    "fifo": HeuristicSpec(
        compiled.FIFO,
        "jobs by arrival, each with all executors it can use",
        {},
        {},
        idle_insensitive=True,
        limits=FULL_LIMIT,
    ),
    "sjf_cp": HeuristicSpec(
        compiled.SJF_CP,
        "least total work first, in the job the critical path first",
        {},
        {},
        idle_insensitive=True,
        limits=FULL_LIMIT,
    ),
    "sticky_fair": HeuristicSpec(
        compiled.STICKY_FAIR, "fair share, but jobs keep what their stages release", {}, {}
    ),
    "strict_fair": HeuristicSpec(
        compiled.STRICT_FAIR,
        "every job at most executors / jobs",
        {},
        {},
        idle_insensitive=True,
        limits=FAIR_LIMIT,
    ),
    "spark_fair": HeuristicSpec(
        compiled.SPARK_FAIR,
        "Spark's FAIR pools, one for each job, work conserving",
        {},
        {},
        idle_insensitive=True,
        limits=FULL_LIMIT,
    ),
    "weighted_fair": HeuristicSpec(
        compiled.WEIGHTED_FAIR,
        "share proportional to total work",
        {"alpha": 1.0, "limit_factor": 1.0},
        {},
        idle_insensitive=True,
    ),
    "tuned_weighted_fair": HeuristicSpec(
        compiled.WEIGHTED_FAIR,
        "share proportional to total work to a tuned power",
        {"alpha": -0.1, "limit_factor": 0.9},
        {"alpha": _ALPHAS, "limit_factor": _FACTORS},
        idle_insensitive=True,
    ),
    "tuned_srw": HeuristicSpec(
        compiled.TUNED_SRW,
        "shortest remaining work first, under a tuned limit",
        {"factor": 1.5, "jobs_power": 1.0, "work_power": 0.2},
        {"factor": _FACTORS, "jobs_power": _POWERS, "work_power": _POWERS},
    ),
    "tetris": HeuristicSpec(
        compiled.TETRIS,
        "packs the largest tasks that fit first, less what their job has left",
        {"work_weight": 0.1},
        {"work_weight": _WEIGHTS},
        idle_insensitive=True,
    ),
    "graphene": HeuristicSpec(
        compiled.GRAPHENE,
        "shortest remaining work first under a tuned limit, packed around troublesome stages",
        {"factor": 1.5, "jobs_power": 1.0, "work_power": 0.2, "packing": 0.1},
        {
            "factor": _FACTORS,
            "jobs_power": _POWERS,
            "work_power": _POWERS,
            "packing": _WEIGHTS,
        },
        plans_ahead=True,
    ),
    "es_rule": HeuristicSpec(
        compiled.ES_RULE,
        "a small scoring rule with fitted weights (`decima fit-rule`)",
        shipped_weights("es_rule", es_rule.PARAMETERS),
        {},
        inseparable=True,
    ),
    "es_classes": HeuristicSpec(
        compiled.ES_CLASSES,
        "es_rule for executors of several classes: it also names one",
        shipped_weights("es_classes", es_classes.ALL_PARAMETERS),
        {
            "trouble": (-1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
            "packing": (-1.0, -0.3, -0.1, 0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0),
            "large_first": (0.0, 4.0, 16.0, 64.0, 1e6),
        },
    ),
    "es_makespan": HeuristicSpec(
        compiled.ES_CLASSES,
        "the scoring rule with weights fitted to batches' makespan, not to average JCT",
        shipped_weights("es_makespan", es_classes.ALL_PARAMETERS),
        {},
        inseparable=True,
    ),
    "random": HeuristicSpec(compiled.RANDOM, "any open stage, any legal limit", {}, {}),
}
"""every baseline, in the order of lists"""


_MOST_LISTED = 8


def _listed(names: Iterable[str]) -> str:
    """Join names for a message: all if they are few, else the first of them."""
    every = list(names)
    if len(every) > _MOST_LISTED:
        return f"{len(every)}, from {every[0]!r} to {every[-1]!r}"
    return ", ".join(every) or "none"


def _checked(words: str, value: object, searched: tuple[float, ...]) -> float:
    """Return a parameter as a number with the sign of all searched values; else PolicyError."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise PolicyError(f"{words} must be a number, got {value!r:.40}")
    if not np.isfinite(value):
        raise PolicyError(f"{words} must be finite, got {value}")
    least = min(searched, default=-1.0)
    if least >= 0.0 and (value < 0.0 or (least > 0.0 and value == 0.0)):
        raise PolicyError(f"{words} must {'be above' if least else 'not be below'} 0, got {value}")
    return float(value)


class Heuristic:
    """A compiled heuristic for one run: decides one by one, or plays the run through at once."""

    def __init__(
        self,
        name: str,
        parameters: Parameters | None = None,
        key: int = 0,
        trace: TraceArrays | None = None,
    ) -> None:
        """Args:
            name: a key of `HEURISTICS`.
            parameters: values that replace its defaults.
            key: 64 random bits, for a heuristic that draws.
            trace: what observations point to; only `decide` of one that plans ahead needs it.

        Raises:
            PolicyError: no such heuristic, or it has no such parameter.
        """
        if name not in HEURISTICS:
            known = ", ".join((*HEURISTICS, SHIPPED_MODEL))
            near = suggestion(name, (*HEURISTICS, SHIPPED_MODEL))
            raise PolicyError(f"unknown policy {name!r}{near}; there are {known}")
        spec = HEURISTICS[name]
        values = dict(spec.defaults)
        for label, value in (parameters or {}).items():
            if label not in values:
                raise PolicyError(
                    f"policy {name!r} has no parameter {label!r}{suggestion(label, values)} "
                    f"(it has {_listed(values)})"
                )
            values[label] = _checked(f"policy {name!r}: {label}", value, spec.search.get(label, ()))
        missing = [label for label in values if label not in (parameters or values)]
        if spec.inseparable and missing:
            raise PolicyError(
                f"policy {name!r}: parameter {missing[0]!r} is missing; its {len(values)} "
                "parameters belong together"
            )
        self.name = name
        self.parameters: Parameters = values
        self._code = spec.code
        self._numbers = np.array(list(values.values()), np.float64)
        self._scratch = scratch_for(key)
        self._plans_ahead = spec.plans_ahead
        self._idle_insensitive = spec.idle_insensitive
        self._limits = spec.limits
        self._trace = trace

    def on(self, trace: TraceArrays) -> Heuristic:
        """Rebind to another trace, and return self."""
        if self._plans_ahead and trace is not self._trace:
            self._trace = trace
            self._numbers = self._numbers[: len(self.parameters)]
        return self

    def decide(self, observation: Observation) -> Action:
        """The next action (`decima.policy.Policy`)."""
        seen = for_kernels(observation)
        if self._plans_ahead:
            self._plan(self._trace, seen.classes)
        stage, limit, kind = compiled.decide(self._code, seen, self._numbers, self._scratch)
        return PASS if stage == NONE else Action(int(stage), int(limit), int(kind))

    def play(self, simulator: Simulator, *, timed: bool = False) -> float:
        """Run `simulator` to its end inside compiled code; return the CPU seconds deciding, if
        `timed`.
        """
        if simulator.status is not Status.DECIDE:
            return 0.0
        if self._plans_ahead:
            self._plan(simulator.state.trace, simulator.state.classes)
        if self._idle_insensitive:
            simulator.ask_less()
        simulator.keep_plans(self._limits)
        scratch = scratch_for(0, len(simulator.state.jobs))._replace(draws=self._scratch.draws)
        compiled.load(self._code)  # not in the time of its first decision
        status, spent_us = compiled.run(simulator.state, self._code, self._numbers, scratch, timed)
        if status == ILLEGAL:
            seen = simulator.observation()
            action = self.decide(seen)
            raise IllegalActionError(f"policy {self.name!r}: {explain_illegal(seen, action)}")
        simulator.finish(status)
        return spent_us / 1e6

    def _plan(self, trace: TraceArrays | None, classes: Table) -> None:
        """Append the plan of the trace's jobs to the parameters, if it is missing."""
        if trace is None:
            raise PolicyError(f"policy {self.name!r} plans jobs ahead and was given no trace")
        if len(self._numbers) == len(self.parameters):
            self._numbers = np.concatenate([self._numbers, planned_places(trace, classes)])

    def compiled(self, trace: TraceArrays, classes: Table) -> tuple[int, Numbers, Scratch]:
        """Return the code, the numbers and the scratch with which kernels decide as this does."""
        if self._plans_ahead:
            self._plan(trace, classes)
        return self._code, self._numbers, self._scratch
