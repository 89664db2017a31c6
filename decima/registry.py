"""`HEURISTICS`, every heuristic by name, and `Heuristic`, a compiled one as a policy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from decima.errors import PolicyError
from decima.heuristics import run as compiled
from decima.heuristics.run import HEURISTICS as HEURISTICS
from decima.heuristics.spec import Numbers, Scratch, scratch_for
from decima.policy_names import SHIPPED_MODEL
from spark_sim import Action, IllegalActionError, Observation, Simulator, Status
from spark_sim.observation import PASS, for_kernels
from spark_sim.simulator import explain_illegal
from spark_sim.tables import ILLEGAL, NONE, Table
from traces.arrays import TraceArrays
from traces.files.names import suggestion

Parameters = Mapping[str, float]  # parameters of a heuristic, by name
_MOST_LISTED = 8  # names of parameters in a message


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
                names = list(values)
                listed = ", ".join(names) or "none"
                if len(names) > _MOST_LISTED:
                    listed = f"{len(names)}, from {names[0]!r} to {names[-1]!r}"
                raise PolicyError(
                    f"policy {name!r} has no parameter {label!r}{suggestion(label, values)} "
                    f"(it has {listed})"
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
        self._spec = spec
        self._number = compiled.number_of(name)
        self._numbers = np.array(list(values.values()), np.float64)
        self._scratch = scratch_for(key)
        self._trace = trace

    def on(self, trace: TraceArrays) -> Heuristic:
        """Return self, rebound to `trace`; a live session has a new one whenever it changes."""
        if self._spec.plan is not None and trace is not self._trace:
            self._trace = trace
            self._numbers = self._numbers[: len(self.parameters)]
        return self

    def decide(self, observation: Observation) -> Action:
        """The next action (`decima.policy.Policy`)."""
        tables = for_kernels(observation)
        number, numbers, scratch = self.compiled(self._trace, tables.classes)
        stage, limit, kind = compiled.decide(number, tables, numbers, scratch)
        return PASS if stage == NONE else Action(int(stage), int(limit), int(kind))

    def play(self, simulator: Simulator, *, timed: bool = False) -> float:
        """Run `simulator` to its end inside compiled code; return the CPU seconds deciding, if
        `timed`.
        """
        if simulator.status is not Status.DECIDE:
            return 0.0
        state = simulator.state
        number, numbers, scratch = self.compiled(state.trace, state.classes)
        if self._spec.idle_insensitive:
            simulator.ask_less()
        simulator.keep_plans(self._spec.limits)
        scratch = scratch_for(0, len(state.jobs))._replace(draws=scratch.draws)
        compiled.load(number)  # not in the time of its first decision
        status, spent_us = compiled.run(state, number, numbers, scratch, timed)
        if status == ILLEGAL:
            observation = simulator.observation()
            action = self.decide(observation)
            raise IllegalActionError(
                f"policy {self.name!r}: {explain_illegal(observation, action)}"
            )
        simulator.finish(status)
        return spent_us / 1e6

    def compiled(self, trace: TraceArrays | None, classes: Table) -> tuple[int, Numbers, Scratch]:
        """Return the number, parameters and scratch with which kernels decide as this does.

        The plan of the trace's jobs follows the parameters of one that plans ahead.
        """
        if self._spec.plan is not None and len(self._numbers) == len(self.parameters):
            if trace is None:
                raise PolicyError(f"policy {self.name!r} plans jobs ahead and was given no trace")
            self._numbers = np.concatenate([self._numbers, self._spec.plan(trace, classes)])
        return self._number, self._numbers, self._scratch
