"""The sections of what ran on a Spark: the review of a decision log, and replayed jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from decima.report.section import Lines, Section, Series, series, share_complete
from decima.spark.decision_log import DecisionHistory
from decima.spark.review import Review, held_slots, rows, words
from decima.spark.trial import TrialOutcome
from traces.numbers import Float64

_DRAWN_PLANS = 2_000  # most plans that are drawn; of a longer log, evenly spaced ones


class Cell(NamedTuple):
    """A figure to sort by, and what a table shows for it."""

    value: float
    text: str


def review_section(found: Review, decisions: DecisionHistory) -> Section:
    """Section with the results of `decima spark review`."""
    lines = rows(found, decisions)
    first = next(iter(found.simulated_s))
    return Section(
        anchor="review",
        heading="What other policies would have done",
        template="table.html",
        content={
            "sentences": list(words(found)),
            "caption": "Job completion times (JCT) of the same jobs in every row; Spark's own "
            "time is part of the simulated ones.",
            "headings": ["policy", "average JCT", f"vs {first}", "p95"],
            "rows": [(row.label, [*_jct(row.jct_s, row.versus)]) for row in lines],
        },
        charts=[
            Lines(
                f"Slots held by job under {decisions.policy}, {decisions.mode}, as logged",
                _held(decisions),
                "seconds since the first plan",
                "slots",
                stepped=True,
            ),
            _shares({row.label: row.jct_s for row in lines}),
        ],
    )


def replay_section(outcomes: Sequence[TrialOutcome], facts: str) -> Section:
    """Section with the results of `decima spark replay`; `facts` is what ran where."""
    table = []
    for one in outcomes:
        average, p95 = _quantiles(one.jct_s)
        simulated = float(one.simulated_s.mean())
        plans = None if one.status is None else one.status.plans
        over = None if one.status is None else one.status.jvm.get("launches_over_limit")
        table.append((one.policy, [
            average, p95, Cell(simulated, f"{simulated:.2f} s"),
            Cell(one.error, f"{one.error:.1%}"), Cell(one.bias, f"{one.bias:+.1%}"),
            _count(plans), _count(over)]))  # fmt: skip
    return Section(
        anchor="replay",
        heading="Replayed on Spark",
        template="table.html",
        content={
            "sentences": [facts],
            "caption": "Job completion times (JCT) on Spark beside those of the simulator for the "
            "same jobs, arrivals and policy; the error is the median over jobs.",
            "headings": ["policy", "average JCT", "p95", "in the simulator", "median error", "bias",
                         "plans", "over limit"],
            "rows": table,
        },
        charts=[_shares({one.policy: one.jct_s for one in outcomes})],
    )  # fmt: skip


def _quantiles(jct_s: Float64) -> tuple[Cell, Cell]:
    average, p95 = float(jct_s.mean()), float(np.quantile(jct_s, 0.95))
    return Cell(average, f"{average:.2f} s"), Cell(p95, f"{p95:.2f} s")


def _jct(jct_s: Float64, versus: float | None) -> tuple[Cell, Cell, Cell]:
    average, p95 = _quantiles(jct_s)
    against = Cell(0.0, "") if versus is None else Cell(versus, f"{100 * versus:+.1f} %")
    return average, against, p95


def _count(value: Any) -> Cell:
    return Cell(-1.0, "") if value is None else Cell(float(value), str(value))


def _held(decisions: DecisionHistory) -> Series:
    time_s, held = held_slots(decisions)
    drawn = slice(None, None, 1 + (len(time_s) - 1) // _DRAWN_PLANS)
    return series(time_s[drawn], {job: slots[drawn] for job, slots in held.items()})


def _shares(jct_s: Mapping[str, Float64]) -> Lines:
    title = "Share of the jobs complete within so many seconds"
    return Lines(title, share_complete(jct_s), "JCT, s", "share of jobs", log_x=True)
