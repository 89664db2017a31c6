"""The sections of what ran on a Spark: the review of a decision log, and replayed jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from decima.report.section import Lines, Section, completion, series
from decima.spark.decision_log import DecisionHistory
from decima.spark.review import Review, held_slots, rows, words
from decima.spark.trial import TrialOutcome

_DRAWN_PLANS = 2_000  # most plans that are drawn; of a longer log, evenly spaced ones


class Cell(NamedTuple):
    """A figure to sort by, and what a table shows for it."""

    value: float
    text: str


class JctTable(NamedTuple):
    """A table with a row for each policy."""

    headings: list[str]
    rows: list[tuple[str, list[Cell]]]


def review_section(review: Review, decisions: DecisionHistory) -> Section:
    time_s, held = held_slots(decisions)
    drawn = slice(None, None, 1 + (len(time_s) - 1) // _DRAWN_PLANS)
    slots_by_job = {job: slots[drawn] for job, slots in held.items()}
    return Section(
        anchor="review",
        heading="What other policies would have done",
        template="table.html",
        content={
            "sentences": list(words(review)),
            "caption": "Job completion times (JCT) of the same jobs in every row; Spark's own "
            "time is part of the simulated ones.",
            **review_table(review, decisions)._asdict(),
        },
        charts=[
            Lines(
                f"Slots held by job under {decisions.policy}, {decisions.mode}, as logged",
                series(time_s[drawn], slots_by_job),
                "seconds since the first plan",
                "slots",
                stepped=True,
            ),
            completion("the jobs", {row.label: row.jct_s for row in rows(review, decisions)}),
        ],
    )


def replay_section(outcomes: Sequence[TrialOutcome], facts: str) -> Section:
    return Section(
        anchor="replay",
        heading="Replayed on Spark",
        template="table.html",
        content={
            "sentences": [facts],
            "caption": "Job completion times (JCT) on Spark beside those of the simulator for the "
            "same jobs, arrivals and policy; the error is the median over jobs.",
            **replay_table(outcomes)._asdict(),
        },
        charts=[completion("the jobs", {outcome.policy: outcome.jct_s for outcome in outcomes})],
    )


def review_table(review: Review, decisions: DecisionHistory) -> JctTable:
    """Return the figures of `decima spark review`, on the page and in the terminal."""
    lines = []
    for row in rows(review, decisions):
        versus = 0.0 if row.versus is None else row.versus
        against = Cell(versus, "" if row.versus is None else f"{100 * versus:+.1f} %")
        lines.append(
            (
                row.label,
                [_seconds(row.jct_s.mean()), against, _seconds(np.quantile(row.jct_s, 0.95))],
            )
        )
    first = next(iter(review.simulated_s))
    return JctTable(["policy", "average JCT", f"vs {first}", "p95"], lines)


def replay_table(outcomes: Sequence[TrialOutcome]) -> JctTable:
    """Return the figures of `decima spark replay`, on the page and in the terminal."""
    headings = ["policy", "average JCT", "p95", "in the simulator", "median error", "bias", "plans",
                "over limit"]  # fmt: skip
    lines = []
    for outcome in outcomes:
        plans = None if outcome.status is None else outcome.status.plans
        over = None if outcome.status is None else outcome.status.jvm.get("launches_over_limit")
        times = [
            _seconds(outcome.jct_s.mean()),
            _seconds(np.quantile(outcome.jct_s, 0.95)),
            _seconds(outcome.simulated_s.mean()),
        ]
        errors = [
            Cell(outcome.error, f"{outcome.error:.1%}"),
            Cell(outcome.bias, f"{outcome.bias:+.1%}"),
        ]
        lines.append((outcome.policy, [*times, *errors, _count(plans), _count(over)]))
    return JctTable(headings, lines)


def _seconds(value: np.floating[Any]) -> Cell:
    return Cell(float(value), f"{value:.2f} s")


def _count(value: Any) -> Cell:
    return Cell(-1.0, "") if value is None else Cell(float(value), str(value))
