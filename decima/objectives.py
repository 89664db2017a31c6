r"""Objectives: figures of a run that policies are compared, tuned and trained by; lower is better.

`decima evaluate`, `tune`, `fit-rule`, `train` and their reports take the same names:

* those of `OBJECTIVES`, of which `weighted_jct` and `deadlines` take each job's weight and deadline
  from the trace,
* `deadlines:F`, the share of jobs that take longer than F times their lower bound alone on the
  cluster (`RunMetrics.slowdown`), and
* `my_file.py:function` or `module:function`, a function of your own from `RunMetrics` to a positive
  number. Such a name runs code, so it is taken from a command or a program, never from a file.

Those with a `cost` are sums over time. With c_j the completion of job j and a_j its arrival, the
cost up to time t is

.. math::
    C(t) = \sum_j [\min(t, c_j) - a_j]_+ \;(avg\_jct), \qquad
    C(t) = \sum_j [\min(t, c_j) - a_j]_+^2 / U \;(rms\_jct), \qquad
    C(t) = |\{s < t : \text{a job is in the system}\}| \;(makespan)

and the reward of a decision is C at the decision minus C at the next one, or at the end. Jobs that
are not complete count as long as they are in the system, so leaving them undone never pays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from decima.errors import ConfigError
from decima.own_code import OwnCodeError, error_text, load_callable
from spark_sim.metrics import RunMetrics
from traces.files.names import suggestion
from traces.numbers import Float64
from traces.trace import Trace

AVG_JCT = "avg_jct"
DEADLINES = "deadlines"
_BY_FACTOR = f"{DEADLINES}:"
P95_POWER = 0.5
TAIL_UNIT_S = 100.0
"""U: a job of this age costs as much per second as two under `avg_jct`"""
_LARGEST_FACTOR = 1e6


Cost = Callable[[Float64, Float64, Float64], Float64]
"""(M,) cost up to (M,) times, of (J,) arrivals and completions; all in seconds"""


@dataclass(frozen=True)
class Objective:
    """An objective and what it is called."""

    name: str
    title: str
    """name in tables and reports, such as "average JCT\""""
    unit: str
    """"s", or "" for a plain number"""
    figure: Callable[[RunMetrics], float]
    """a positive number for each run, so that ratios of runs exist"""
    cost: Cost | None = None
    """the objective as a sum over time, so that each decision has a reward; None: it is none"""

    def __reduce__(self) -> tuple[Callable[[str], Objective], tuple[str]]:
        """Travel between processes by name: functions of a user's own cannot."""
        return objective_named, (self.name,)

    def value(self, metrics: RunMetrics) -> float:
        """Figure of one run; ConfigError if a function of one's own fails."""
        if not is_own(self.name):
            return float(self.figure(metrics))
        try:
            return float(self.figure(metrics))
        except Exception as error:
            raise ConfigError(f"objective {self.name!r} failed: {error_text(error)}") from error

    def of(self, metrics: RunMetrics) -> float:
        """Figure of one run; ConfigError if it is not a positive, finite number."""
        figure = self.value(metrics)
        if not 0.0 < figure < math.inf:
            raise ConfigError(
                f"objective {self.name!r} is {figure:g} for a run of {len(metrics.jct_s)} jobs: it "
                "must be a positive, finite number"
            )
        return figure


def objective_named(name: str) -> Objective:
    """Return the objective of that name; your own code is loaded. ConfigError if there is none."""
    check_objective(name)
    if name in OBJECTIVES:
        return OBJECTIVES[name]
    if name.startswith(_BY_FACTOR):
        factor = float(name.removeprefix(_BY_FACTOR))
        title = f"share of jobs beyond {factor:g} times their time alone"
        return Objective(name, title, "", lambda metrics: _late_share(metrics.slowdown, factor))
    try:
        return Objective(name, name, "", load_callable(name))
    except OwnCodeError as error:
        raise ConfigError(f"objective {name!r}: {error}") from error


def objective_title(name: str) -> str:
    """Return what the objective of that name is called; a function of one's own is not loaded."""
    return name if is_own(name) else objective_named(name).title


def check_objective(name: str) -> None:
    """Raise ConfigError if no objective can have this name; your own code is not loaded."""
    if name in OBJECTIVES:
        return
    if name.startswith(_BY_FACTOR):
        text = name.removeprefix(_BY_FACTOR)
        try:
            is_possible = 1.0 <= float(text) <= _LARGEST_FACTOR
        except ValueError:
            is_possible = False
        if not is_possible:
            raise ConfigError(
                f"objective {name!r:.60}: {text!r:.40} is no factor of a job's time alone, "
                f"which is a number from 1 to {_LARGEST_FACTOR:,.0f}"
            )
    elif not is_own(name):
        known = ", ".join((*OBJECTIVES, f"{_BY_FACTOR}FACTOR", "FILE.py:FUNCTION"))
        raise ConfigError(
            f"objective {name!r:.60}{suggestion(name, OBJECTIVES)}: there are {known}"
        )


def check_workload(name: str, trace: Trace) -> None:
    """Raise ConfigError if the trace lacks what the objective of that name is about."""
    if name == DEADLINES and np.isnan(trace.columns.deadline_ms).all():
        raise ConfigError(
            f"objective {name!r}: no job of trace {trace.name!r:.60} has a deadline_ms "
            f"({_BY_FACTOR}FACTOR needs none)"
        )


def is_own(name: str) -> bool:
    """Return whether the name is that of a function of the user's own."""
    return ":" in name and not name.startswith(_BY_FACTOR)


def _geometric_jct(metrics: RunMetrics) -> float:
    return float(np.exp(np.log(metrics.jct_s).mean())) if len(metrics.jct_s) else math.nan


def _root_mean_square_jct(metrics: RunMetrics) -> float:
    return math.sqrt(np.square(metrics.jct_s).mean()) if len(metrics.jct_s) else math.nan


def _weighted_jct(metrics: RunMetrics) -> float:
    if len(metrics.jct_s) == 0:
        return math.nan
    weight = metrics.weight / metrics.weight.max()  # sums of any weights are finite
    return float(np.average(metrics.jct_s, weights=weight))


def _missed_deadlines(metrics: RunMetrics) -> float:
    has_deadline = np.isfinite(metrics.deadline_s)
    return _late_share(metrics.jct_s[has_deadline], metrics.deadline_s[has_deadline])


def _late_share(values: Float64, most: Float64 | float) -> float:
    """Share of late jobs, half a late job added so that it is never 0 (Krichevsky-Trofimov)."""
    return (float((values > most).sum()) + 0.5) / (len(values) + 1.0)


def _ages_s(arrival_s: Float64, completion_s: Float64, time_s: Float64) -> Float64:
    """(M, J) seconds that each job has been in the system at each time."""
    return np.asarray(np.maximum(np.minimum(time_s[:, None], completion_s) - arrival_s, 0.0))


def _squared_ages(arrival_s: Float64, completion_s: Float64, time_s: Float64) -> Float64:
    age_s = _ages_s(arrival_s, completion_s, time_s)
    return np.asarray((age_s * (age_s / TAIL_UNIT_S)).sum(axis=1))


def _time_with_jobs(arrival_s: Float64, completion_s: Float64, time_s: Float64) -> Float64:
    latest_s = np.maximum.accumulate(completion_s)  # jobs come in the order of arrival
    previous_s = np.concatenate([[0.0], latest_s[:-1]])
    begin_s = np.maximum(arrival_s, previous_s)
    span_s = np.minimum(time_s[:, None], latest_s) - begin_s
    return np.asarray(np.maximum(span_s, 0.0).sum(axis=1))


OBJECTIVES: Mapping[str, Objective] = {
    objective.name: objective
    for objective in (
        Objective(
            AVG_JCT,
            "average JCT",
            "s",
            lambda metrics: metrics.avg_jct_s,
            lambda *times: np.asarray(_ages_s(*times).sum(axis=1)),
        ),
        Objective("geometric_jct", "geometric mean of the JCT", "s", _geometric_jct),
        Objective(
            "rms_jct", "root mean square of the JCT", "s", _root_mean_square_jct, _squared_ages
        ),
        Objective("weighted_jct", "weighted average JCT", "s", _weighted_jct),
        Objective("slowdown", "average slowdown", "", lambda metrics: metrics.avg_slowdown),
        Objective("p95", "p95 of the JCT", "s", lambda metrics: metrics.jct_percentile_s(95)),
        Objective("p99", "p99 of the JCT", "s", lambda metrics: metrics.jct_percentile_s(99)),
        Objective(
            "avg_and_p95",
            "average JCT times the root of its p95",
            "",
            lambda metrics: metrics.avg_jct_s * metrics.jct_percentile_s(95) ** P95_POWER,
        ),
        Objective("makespan", "makespan", "s", lambda metrics: metrics.makespan_s, _time_with_jobs),
        Objective(DEADLINES, "share of jobs beyond their deadline", "", _missed_deadlines),
    )
}
"""objectives by name; `rms_jct` weighs the longest jobs, `avg_and_p95` keeps rules from winning by
leaving the largest jobs waiting"""

REWARDED = tuple(name for name, objective in OBJECTIVES.items() if objective.cost is not None)
"""objectives that a policy gradient can follow"""
