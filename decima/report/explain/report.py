"""An explanation as text for the terminal: probabilities first, then the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from decima.report.explain.decision import Explanation, LimitShown
from decima.report.explain.reasons import LEAST_WEIGHT, Reason
from decima.report.explain.words import in_words, percent, values
from decima.rl.tables import aligned
from traces.files.names import counted

MOST_STAGES, MOST_LIMITS = 12, 12  # rows shown; one line sums up the rest

STAGES_LEGEND = (
    "first: probability of coming first. order: place in the plan of this event. waiting: tasks "
    "without an executor. task: mean duration. path: time from the stage's start to the end of its "
    "job. now: yes if its parents are complete. The last four describe its job. left: work not "
    "started, in executor-seconds. holds: executors. here: executors on offer that are in it. age: "
    "time since it arrived."
)
REASONS_LEGEND = (
    "weight: log-probability of the choice, less that with the reason's inputs at their mean over "
    "all choices. +0.7 doubles the probability, -0.7 halves it. stage, limit, class: its parts. "
    f"Weights between -{LEAST_WEIGHT} and {LEAST_WEIGHT} are left out. Weights need not add up: "
    "several inputs may carry the same information."
)


def lines_of(decision: Explanation) -> Iterator[RenderableType]:
    """Yield what `decima explain` prints, part by part."""
    planned = (
        "" if decision.planned_at == decision.decision else f", planned at {decision.planned_at}"
    )
    yield (
        f"decision {decision.decision}{planned} at {decision.time_s:.1f} s: "
        f"{counted(decision.jobs_in_system, 'job')} in the system, "
        f"{decision.on_offer} of {counted(decision.executors, 'executor')} on offer, "
        f"{counted(len(decision.stages), 'stage')} to choose from\n"
    )
    for sentence in in_words(decision):
        yield escape(sentence)
    if not decision.stages:
        return
    yield ""
    yield stages_table(decision)
    hidden = decision.stages[MOST_STAGES:]
    if hidden:
        share = sum(stage.probability for stage in hidden)
        yield f"and {counted(len(hidden), 'further stage')} with {percent(share)} together"
    yield (
        f"leave the rest idle: {percent(decision.end_probability)}, in the plan as number "
        f"{decision.end_place}"
    )
    if decision.limits:
        yield f"limits of this stage's job: {_limits(decision.limits)}"
    if decision.classes:
        words = (
            f"{shown.memory_gb:g} GB ({percent(shown.probability)})" for shown in decision.classes
        )
        yield f"executors for this stage: {', '.join(words)}"
    yield STAGES_LEGEND
    yield ""
    if decision.reasons:
        yield reasons_table(decision, decision.reasons)
        yield REASONS_LEGEND
    else:
        yield f"No reason changes the log-probability of the choice by {LEAST_WEIGHT} or more."
    if decision.columns:
        yield ""
        yield reasons_table(decision, decision.columns)
        yield "Each row is one input column, as defined in decima/agent/columns.py."


def stages_table(decision: Explanation) -> Table:
    """Return the likeliest stages with figures of them and of their jobs."""
    numbers = ("first", "order", "waiting", "task", "path", "now", "left", "holds", "here", "age")
    table = aligned(("job", "arrival", "stage"), numbers)
    for stage in decision.stages[:MOST_STAGES]:
        table.add_row(
            escape(stage.job.name),
            str(stage.job.arrival),
            escape(stage.name),
            percent(stage.probability),
            str(stage.place),
            f"{stage.wanted:,}",
            f"{stage.task_s:.2f} s",
            f"{stage.critical_path_s:.1f} s",
            "yes" if stage.runnable else "no",
            f"{stage.job.work_left_s:,.0f}",
            str(stage.job.held),
            str(stage.job.local),
            f"{stage.job.age_s:.1f} s",
            style="bold" if stage == decision.taken else None,
        )
    return table


def reasons_table(decision: Explanation, reasons: Sequence[Reason]) -> Table:
    """Return the weights of reasons, with the values behind them."""
    parts = [
        "stage",
        *(["limit"] if decision.limits else []),
        *(["class"] if decision.classes else []),
    ]
    table = aligned(("reason",), ("this one", "average", "weight", *parts))
    for reason in reasons:
        weights = (reason.weight, reason.stage, reason.limit, reason.executor_class)
        shown = [f"{weight:+.2f}" for weight in weights[: 1 + len(parts)]]
        table.add_row(reason.name, *values(decision, reason), *shown)
    return table


def _limits(limits: Sequence[LimitShown]) -> str:
    """List the likeliest limits, the lowest first."""
    likeliest = sorted(limits, key=lambda shown: -shown.probability)[:MOST_LIMITS]
    words = [
        f"{shown.limit} ({percent(shown.probability)})"
        for shown in sorted(likeliest, key=lambda shown: shown.limit)
    ]
    if len(limits) > len(likeliest):
        rest = 1 - sum(shown.probability for shown in likeliest)
        words.append(f"{len(limits) - len(likeliest)} others ({percent(rest)})")
    return ", ".join(words)
