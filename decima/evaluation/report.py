"""Results of an evaluation: figures for each policy, as objects, JSON and a table."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from decima.evaluation.config import EvaluationConfig, draw_sequence
from decima.objectives import AVG_JCT, Objective, objective_named
from decima.rl.statistics import Estimate, are_repeats, difference_percent, mean_of
from decima.rl.tables import aligned
from spark_sim import tables
from spark_sim.cluster import MB_PER_GB
from spark_sim.metrics import RunMetrics
from traces import Trace
from traces.numbers import MS_PER_S, Float64

FIGURES = (
    "avg_jct_s",
    "median_jct_s",
    "p95_jct_s",
    "p99_jct_s",
    "avg_slowdown",
    "makespan_s",
    "utilisation",
    "fairness",
)
"""figures of a policy, one value a sequence, in the order of reports"""

_BOUNDS = {"utilisation": (0.0, 1.0), "fairness": (0.0, 1.0)}
"""bounds of a figure, and of the interval of its mean"""

FORMAT, VERSION = "decima-evaluation", 3
"""identity of the JSON form; an incompatible change gets a new version"""


def estimate(figure: str, values: Float64) -> Estimate:
    """Mean of one of `FIGURES` over (S,) sequences, with an interval within its bounds."""
    return mean_of(values).within(*_BOUNDS.get(figure, (-np.inf, np.inf)))


@dataclass(frozen=True, eq=False)
class PolicyRun:
    """One policy on one sequence."""

    policy: str
    sequence: int
    metrics: RunMetrics
    policy_cpu_s: float  # deciding
    environment_cpu_s: float  # all else: building the run and its events
    timeline: tables.Table | None  # the record of each task, if requested


@dataclass(frozen=True, eq=False)
class PolicyReport:
    """One policy over S sequences; every array is (S,), one value for each."""

    runs: tuple[PolicyRun, ...]
    """runs by number of the sequence"""
    avg_jct_s: Float64
    median_jct_s: Float64
    p95_jct_s: Float64
    p99_jct_s: Float64
    avg_slowdown: Float64
    makespan_s: Float64
    utilisation: Float64
    fairness: Float64
    """Jain's index of the slowdowns"""
    objective: Float64
    """what differences between policies are in"""

    @classmethod
    def of(cls, runs: Sequence[PolicyRun], objective: Objective) -> PolicyReport:
        """Collect the figures of `runs`, which are in the order of their sequences."""
        metrics = [run.metrics for run in runs]
        return cls(
            runs=tuple(runs),
            median_jct_s=np.array([run.jct_percentile_s(50) for run in metrics]),
            p95_jct_s=np.array([run.jct_percentile_s(95) for run in metrics]),
            p99_jct_s=np.array([run.jct_percentile_s(99) for run in metrics]),
            objective=np.array([objective.value(run) for run in metrics]),
            **{
                figure: np.array([getattr(run, figure) for run in metrics])
                for figure in ("avg_jct_s", "avg_slowdown", "makespan_s", "utilisation", "fairness")
            },
        )

    def total(self, figure: str) -> int:
        """Sum of a counting figure of `RunMetrics` over the sequences."""
        return sum(int(getattr(run.metrics, figure)) for run in self.runs)

    def executor_s(self, figure: str) -> float:
        """Sum of an executor-seconds figure of `RunMetrics` over the sequences."""
        return sum(float(getattr(run.metrics, figure)) for run in self.runs)


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The comparison of all policies of an evaluation."""

    config: EvaluationConfig
    trace: Trace
    policies: Mapping[str, PolicyReport]

    @cached_property
    def objective(self) -> Objective:
        """What differences between policies are in."""
        return objective_named(self.config.objective)

    @cached_property
    def reference(self) -> PolicyReport:
        """The first policy: the others are compared with it."""
        return self.policies[self.config.policies[0]]

    @cached_property
    def has_repeats(self) -> bool:
        """True if all sequences have equal results, so that they count as one."""
        return any(are_repeats(policy.objective) for policy in self.policies.values())

    def difference(self, name: str) -> Estimate:
        """Objective of `name` against the first policy, in percent, paired by sequence."""
        return difference_percent(self.policies[name].objective, self.reference.objective)

    def __repr__(self) -> str:
        parts = [
            f"{name} {policy.avg_jct_s.mean():.1f} s"
            + ("" if policy is self.reference else f" ({self.difference(name).mean:+.1f} %)")
            for name, policy in self.policies.items()
        ]
        return f"<Report, average JCT over {self.config.sequences} sequences: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        """`table` in a notebook."""
        console = Console(file=io.StringIO(), record=True, width=200, force_jupyter=False)
        console.print(self.table())
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    def to_arrow(self) -> pa.Table:
        """The figures, a row for each policy and sequence; `.to_pandas()` makes a DataFrame."""
        rows = [
            {"policy": name, "sequence": run.sequence}
            | {figure: float(getattr(policy, figure)[place]) for figure in FIGURES}
            for name, policy in self.policies.items()
            for place, run in enumerate(policy.runs)
        ]
        return pa.Table.from_pylist(rows)

    def jobs_to_arrow(self) -> pa.Table:
        """The jobs that arrived, a row for each policy, sequence and job, by arrival."""
        names = self.trace.job_names
        parts = [
            pa.table(
                {
                    "policy": [name] * len(run.metrics.jct_s),
                    "sequence": [run.sequence] * len(run.metrics.jct_s),
                    "job": [names[row] for row in run.metrics.job],
                    "jct_s": run.metrics.jct_s,
                    "slowdown": run.metrics.slowdown,
                }
            )
            for name, policy in self.policies.items()
            for run in policy.runs
        ]
        return pa.concat_tables(parts)

    def to_json(self) -> dict[str, Any]:
        """The report in the documented JSON form (`docs/evaluation.md`).

        Equal settings give equal bytes, so CPU times are not in it (`timings_json`).
        """
        sequences = []  # their jobs, which are the same for every policy
        for run in self.reference.runs:
            arrivals = draw_sequence(self.config, self.trace, run.sequence)
            jobs = [self.trace.jobs[number] for number in arrivals.job]
            sequences.append(
                {
                    "name": [job.name for job in jobs],
                    "arrival_s": _to_ms(arrivals.arrival_ms / MS_PER_S),
                    "work_s": [round(job.work_ms / MS_PER_S, 3) for job in jobs],
                }
            )
        return {
            "format": FORMAT,
            "version": VERSION,
            "config": {**self.config.to_json(), "policies": list(self.policies)},
            "sequences": sequences,
            "policies": {name: self._policy_json(name) for name in self.policies},
        }

    def timings_json(self) -> dict[str, Any]:
        """CPU seconds of each policy, which differ from run to run."""
        cpu_s = {
            name: {
                "policy": sum(run.policy_cpu_s for run in report.runs),
                "environment": sum(run.environment_cpu_s for run in report.runs),
            }
            for name, report in self.policies.items()
        }
        return {"format": "decima-timings", "version": 1, "cpu_s": cpu_s}

    def _policy_json(self, name: str) -> dict[str, Any]:
        report = self.policies[name]
        difference = self.difference(name)
        parts = ("busy", "moving", "idle", "first", "inflation")
        counts = ("task_events", "decisions", "forced", "unfinished", "not_arrived")
        content: dict[str, Any] = {
            figure: _figure_json(figure, getattr(report, figure)) for figure in FIGURES
        }
        if self.config.objective != AVG_JCT:  # which each report shows anyway
            content["objective"] = _figure_json("", report.objective)
        content["difference_to_first"] = {
            "mean_percent": difference.mean,
            "ci95_percent": difference.ci95,
        }
        content |= {f"{part}_executor_s": report.executor_s(f"{part}_executor_s") for part in parts}
        content["jobs"] = sum(len(run.metrics.jct_s) for run in report.runs)
        content |= {label: report.total(label) for label in counts}
        if report.runs[0].metrics.classes:
            content["classes"] = _classes_json(report)
        content["jct_s"] = [_to_ms(run.metrics.jct_s) for run in report.runs]
        return content

    def table(self) -> Table:
        """Table of one row for each policy."""
        versus = f"vs {self.config.policies[0]} [95 %]"
        rest = ("median", "p95", "p99", "makespan", "busy", "moving", "decisions")
        # Each table has a column of these objectives anyway.
        is_shown = self.config.objective in {AVG_JCT, "p95", "p99", "makespan"}
        named = () if is_shown else (self.config.objective,)
        table = aligned(("policy",), ("average JCT [95 %]", *named, versus, *rest))
        for name, report in self.policies.items():
            left = [
                f"{report.total(figure)} {figure.replace('_', ' ')}"
                for figure in ("unfinished", "not_arrived")
                if report.total(figure) > 0
            ]
            makespan_s = sum(run.metrics.makespan_s for run in report.runs)
            executor_s = max(1e-9, makespan_s * self.config.executors)
            moving = report.executor_s("moving_executor_s") / executor_s
            objective = f"{report.objective.mean():.4g} {self.objective.unit}".strip()
            table.add_row(
                name,
                mean_of(report.avg_jct_s).words(".1f", " s"),
                *(() if is_shown else (objective,)),
                "" if report is self.reference else self.difference(name).words("+.1f", " %"),
                f"{report.median_jct_s.mean():.1f}",
                f"{report.p95_jct_s.mean():.1f}",
                f"{report.p99_jct_s.mean():.1f}",
                f"{report.makespan_s.mean():,.0f}" + (f" ({', '.join(left)})" if left else ""),
                f"{100 * report.utilisation.mean():.0f} %",
                f"{100 * moving:.0f} %",
                f"{report.total('decisions'):,}",
            )
        return table

    def class_table(self) -> Table | None:
        """Table of each class's share of busy time and idle memory under each policy."""
        classes = self.reference.runs[0].metrics.classes
        if not classes:
            return None
        sizes = [f"{kind.count} of {kind.memory_mb / MB_PER_GB:g} GB" for kind in classes]
        table = aligned(("busy, memory idle meanwhile",), sizes)
        for name, report in self.policies.items():
            rows = _classes_json(report)
            cells = (f"{row['busy_share']:.0%}, {row['idle_memory_share']:.0%}" for row in rows)
            table.add_row(name, *cells)
        return table


def _to_ms(values_s: Float64) -> list[float]:
    """Round times in seconds to milliseconds."""
    return [round(value, 3) for value in values_s.tolist()]


def _figure_json(figure: str, values: Float64) -> dict[str, Any]:
    return {**vars(estimate(figure, values)), "per_sequence": values.tolist()}


def _classes_json(report: PolicyReport) -> list[dict[str, float]]:
    """Return the figures of each class of executors over all sequences."""
    whole_s = sum(run.metrics.makespan_s for run in report.runs)
    rows = []
    for of_runs in zip(*(run.metrics.classes for run in report.runs), strict=True):
        busy_s = sum(figures.busy_s for figures in of_runs)
        idle_s = sum(figures.busy_s * figures.idle_memory_share for figures in of_runs)
        rows.append(
            {
                "memory_mb": of_runs[0].memory_mb,
                "executors": of_runs[0].count,
                "busy_executor_s": busy_s,
                "busy_share": busy_s / max(1e-9, of_runs[0].count * whole_s),
                "idle_memory_share": idle_s / max(1e-9, busy_s),
            }
        )
    return rows
