"""Section of the comparison page for one evaluation: its table and the series of its charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from decima.evaluation.report import FIGURES, estimate
from decima.objectives import AVG_JCT
from decima.report.results import PolicyResults, Results, difference_to
from decima.report.section import (
    Bars,
    Forest,
    Lines,
    Section,
    Series,
    completion,
    forest,
    series,
)
from decima.rl.statistics import Estimate, are_repeats, difference_percent, method
from spark_sim.metrics import jobs_in_system
from traces.files.names import counted

HIGHER_IS_BETTER = frozenset({"fairness"})
NEITHER = frozenset({"utilisation"})
"""is good or bad by itself: executors that move or work on inflated tasks are busy, too"""

HEADINGS = {
    "avg_jct_s": ("average JCT", "s"),
    "median_jct_s": ("median", "s"),
    "p95_jct_s": ("p95", "s"),
    "p99_jct_s": ("p99", "s"),
    "makespan_s": ("makespan", "s"),
    "avg_slowdown": ("slowdown", ""),
    "utilisation": ("utilisation", "%"),
    "fairness": ("fairness", ""),
}
"""headings of the columns: name and unit"""

_SIZE_GROUPS = 12
_USE = {"work": "#0072b2", "first tasks": "#56b4e9", "moving": "#e69f00", "idle": None}
"""colours of the parts of the executors' time"""
_MOST_STEPS = 1_500  # most steps of the jobs in the system over time, about a chart's width


class Cell(NamedTuple):
    """One policy's figure: a mean over sequences with its 95 % interval."""

    figure: str
    estimate: Estimate
    against: Estimate | None
    """difference to the first policy, percent, paired by sequence; None for the first policy, and
    where the first policy's figure is 0"""
    is_best: bool
    """better than each other policy, every paired interval excluding zero"""


def table(results: Results) -> dict[str, list[Cell]]:
    """The cells of each policy, in the order of `FIGURES`."""
    best = {figure: best_policy(results.policies, figure) for figure in FIGURES}
    first = results.policies[results.reference]
    cells: dict[str, list[Cell]] = {}
    for name, policy in results.policies.items():
        cells[name] = [
            Cell(
                figure,
                estimate(figure, policy.figures[figure]),
                None
                if policy is first
                else difference_to(policy.figures[figure], first.figures[figure]),
                best[figure] == name,
            )
            for figure in FIGURES
        ]
    return cells


def best_policy(policies: Mapping[str, PolicyResults], figure: str) -> str | None:
    """The policy that is better than every other one, each paired interval excluding zero."""
    if figure in NEITHER:
        return None
    sign = -1.0 if figure in HIGHER_IS_BETTER else 1.0
    means = {name: sign * float(policy.figures[figure].mean()) for name, policy in policies.items()}
    leader = min(means, key=lambda name: means[name])
    lowest = policies[leader].figures[figure]
    for name, policy in policies.items():
        if name == leader:
            continue
        against = difference_to(policy.figures[figure], lowest)
        interval = None if against is None else against.ci95
        if interval is None or not (interval[0] > 0 if sign > 0 else interval[1] < 0):
            return None
    return leader if len(policies) > 1 else None


def by_size(results: Results) -> Series:
    """Mean JCT of jobs by work (a group's geometric mean), in groups of about as many jobs each."""
    work_s = np.concatenate([jobs.work_s for jobs in results.sequences])
    bounds = np.unique(np.quantile(work_s, np.linspace(0, 1, _SIZE_GROUPS + 1)))
    group = np.clip(np.searchsorted(bounds, work_s, side="right") - 1, 0, max(0, len(bounds) - 2))
    sizes = np.unique(group)
    x = np.array([np.exp(np.log(np.maximum(work_s[group == size], 1e-3)).mean()) for size in sizes])
    means = {}
    for name, policy in results.policies.items():
        jct_s = np.concatenate(
            [
                # NaN for the jobs that did not arrive.
                np.concatenate([jct_s, np.full(len(jobs.work_s) - len(jct_s), np.nan)])
                for jct_s, jobs in zip(policy.jct_s, results.sequences, strict=True)
            ]
        )
        arrived = ~np.isnan(jct_s)
        of_group = [jct_s[arrived & (group == size)] for size in sizes]
        means[name] = np.array([part.mean() if len(part) else np.nan for part in of_group])
    return series(x, means)


def in_system(results: Results) -> Series:
    """Jobs in the system over time in the first sequence, as steps."""
    jobs = results.sequences[0]
    steps = {}
    for name, policy in results.policies.items():
        jct_s = policy.jct_s[0]
        arrival_s = jobs.arrival_s[: len(jct_s)]
        steps[name] = jobs_in_system(arrival_s, arrival_s + jct_s)
    times = np.unique(np.concatenate([time_s for time_s, _ in steps.values()]))
    if len(times) > _MOST_STEPS:
        times = np.linspace(times[0], times[-1], _MOST_STEPS)
    counts = {}
    for name, (time_s, count) in steps.items():
        at = np.searchsorted(time_s, times, side="right") - 1
        counts[name] = np.where(at >= 0, count[np.maximum(at, 0)], 0).astype(float)
    return series(times, counts)


def summary(all_results: Sequence[Results]) -> dict[str, tuple[float, int, int]]:
    """Summarise several settings with one reference, for each policy that is in all of them.

    By policy: objective against the reference in percent (geometric mean of the ratios), and in
    how many settings the interval is below and above zero.
    """
    first = all_results[0].reference
    if any(results.reference != first for results in all_results):
        return {}
    common = [
        name
        for name in all_results[0].policies
        if name != first and all(name in results.policies for results in all_results)
    ]
    rows = {}
    for name in common:
        differences = [
            difference_percent(results.policies[name].objective, results.policies[first].objective)
            for results in all_results
        ]
        ratio = np.exp(np.mean([np.log1p(max(-99.99, d.mean) / 100) for d in differences]))
        below = sum(1 for d in differences if d.is_surely_below(0))
        above = sum(1 for d in differences if d.ci95 is not None and d.ci95[0] > 0)
        rows[name] = (100 * (float(ratio) - 1), below, above)
    return rows


def comparison_section(results: Results, number: int) -> Section:
    count = len(results.sequences)
    intervals = "" if count < 2 else f"95 % intervals over {count} sequences: {method(count)}."
    if any(are_repeats(policy.objective) for policy in results.policies.values()):
        intervals = f"The {count} sequences are identical repeats of one: there are no intervals."
    return Section(
        anchor=f"evaluation-{number}",
        heading=results.label,
        template="comparison.html",
        content={
            "results": results,
            "headline": headline(results),
            "cells": table(results),
            "figures": [(name, *HEADINGS[name]) for name in FIGURES],
            "intervals": intervals,
        },
        forest=comparison_forest([results]),
        charts=charts(results),
    )


def charts(results: Results) -> list[Lines | Bars]:
    shares = {}
    for name, policy in results.policies.items():
        total_s = sum(policy.executor_s.values())
        shares[name] = {
            part: spent_s / total_s if total_s > 0 else 0.0
            for part, spent_s in policy.executor_s.items()
        }
    return [
        completion(
            "jobs of all sequences",
            {name: np.concatenate(policy.jct_s) for name, policy in results.policies.items()},
        ),
        Lines(
            "Mean JCT by a job's work in executor-seconds, all sequences",
            by_size(results),
            "work, executor-seconds",
            "JCT, s",
            log_x=True,
            log_y=True,
        ),
        Lines(
            "Jobs in the system over time, sequence 0",
            in_system(results),
            "time, s",
            "jobs",
            stepped=True,
        ),
        Bars(
            "What the executors' time went into, all sequences",
            shares,
            "share of the executors' time, %",
            _USE,
        ),
    ]


def summary_section(all_results: Sequence[Results]) -> Section:
    reference, rows = all_results[0].reference, summary(all_results)
    titles = {results.title for results in all_results}
    title = titles.pop() if len(titles) == 1 else "objective"
    return Section(
        anchor="summary",
        heading="Over all settings",
        template="summary.html",
        content={
            "headline": summary_headline(rows, reference, len(all_results), title),
            "reference": reference,
            "title": title,
            "settings": len(all_results),
            "rows": rows,
        },
        forest=comparison_forest(all_results),
    )


def comparison_forest(all_results: Sequence[Results]) -> Forest | None:
    """The paired differences of the objective: a row for each policy, in each setting."""
    reference = all_results[0].reference
    title = all_results[0].title
    if any((results.reference, results.title) != (reference, title) for results in all_results):
        return None
    differences: dict[str, Estimate | None] = {}
    for name in dict.fromkeys(name for results in all_results for name in results.policies):
        for number, results in enumerate(all_results, start=1):
            if name == reference or name not in results.policies:
                continue
            base = results.policies[reference].objective
            label = f"{name}: {number}. {results.label}" if len(all_results) > 1 else name
            differences[label] = difference_to(results.policies[name].objective, base)
    title = f"{title[0].upper()}{title[1:]} against {reference}, paired by sequence"
    return forest(title, differences)


def headline(results: Results) -> str:
    """Sentence with the policy of the lowest objective, its difference and its certainty."""
    means = {name: float(policy.objective.mean()) for name, policy in results.policies.items()}
    order = sorted(means, key=lambda name: means[name])
    best, title = order[0], results.title
    average = f"{means[best]:,.1f} s"
    if results.config.objective != AVG_JCT:
        average = f"{means[best]:,.4g}"
    sequences = counted(len(results.sequences), "sequence")
    if len(order) == 1:
        article = "an" if title[0] in "aeiou" else "a"
        words = (
            f"{best} has {article} {title} of {average} over {sequences}; there is no other policy "
            "to compare it with."
        )
    else:
        whose = "The baseline " if best == results.reference else ""
        words = (
            f"{whose}{best} has the lowest {title} of {len(order)} policies over {sequences}: "
            f"{average}"
        )
        objective = {name: policy.objective for name, policy in results.policies.items()}
        below = None
        if best != results.reference:
            below = difference_to(objective[best], objective[results.reference])
        if below is not None:
            words += (
                f", {-below.mean:.1f} % below the baseline {results.reference} "
                f"({_interval_words(below)})"
            )
        words += "."
        above = difference_to(objective[order[1]], objective[best])
        if order[1] != results.reference and above is not None:
            words += f" The next, {order[1]}, is {above.mean:.1f} % above it"
            words += f" ({_interval_words(above)})."
    if any(policy.unfinished for policy in results.policies.values()):
        words += " Jobs that were unfinished when the time limit came count with their age."
    return words


def _interval_words(difference: Estimate) -> str:
    """The interval of a difference, and whether it leaves the sign open."""
    if difference.ci95 is None:
        return "no interval"
    low, high = difference.ci95
    words = f"95 % interval of the difference {low:+.1f} to {high:+.1f} %"
    return words if low > 0 or high < 0 else f"{words}: it includes zero"


def summary_headline(
    rows: Mapping[str, tuple[float, int, int]], reference: str, settings: int, title: str
) -> str:
    """The best policy over several settings, from the rows of `summary`; "" without rows."""
    if not rows:
        return ""
    best = min(rows, key=lambda name: rows[name][0])
    percent, below, above = rows[best]
    if percent < 0:
        return (
            f"Over {settings} settings, {best} has the lowest {title}: {-percent:.1f} % below "
            f"the baseline {reference}. In {below} of them the interval is below zero, in {above} "
            "above."
        )
    return (
        f"Over {settings} settings, no policy has a lower {title} than the baseline "
        f"{reference}. The next, {best}, is {percent:.1f} % above it."
    )
