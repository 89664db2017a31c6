"""An explanation for people: sentences, then tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from decima.explain.decision import ClassShown, Explanation, LimitShown
from decima.explain.legend import CLASS_COLUMNS, COLUMNS, LIMIT_COLUMNS
from decima.explain.words import amount, in_words, reasons

MOST_STAGES, MOST_LIMITS = 12, 12
"""rows shown; the rest is summed up in one line"""

STAGES_LEGEND = (
    "first: probability of being taken first; order: place in the plan of this event; waiting: "
    "tasks without an executor; task: mean duration; path: from the stage's start to the end of "
    "its job; now: its parents are complete, so it can start. Of its job: left: work not started, "
    "in executor-seconds; holds: executors; here: executors on offer that are in it; age: since it "
    "arrived."
)
REASONS_LEGEND = (
    "weight: what the reason adds to the logarithm of the probability; +0.7 about doubles it, -0.7 "
    "halves it. average: over all stages that could be chosen."
)
COLUMNS_LEGEND = (
    "value: of the choice; average: over all choices, of the cluster over the run so far; own, "
    "others: weights of the choice's own numbers and of those of the other choices."
)


def lines_of(found: Explanation, *, columns: bool = False) -> Iterator[RenderableType]:
    """What `decima explain` prints, one part after the other.

    Args:
        found: the decision.
        columns: show all that the network is told, column by column, in its own units.
    """
    planned = "" if found.planned_at == found.decision else f", planned at {found.planned_at}"
    yield (
        f"decision {found.decision}{planned} at {found.time_s:.1f} s: "
        f"{found.jobs_in_system} jobs in the system, "
        f"{found.on_offer} of {found.executors} executors on offer, "
        f"{len(found.stages)} stages to choose from\n"
    )
    for sentence in in_words(found):
        yield escape(sentence)
    if found.stages:
        yield ""
        yield stages_table(found)
        hidden = found.stages[MOST_STAGES:]
        if hidden:
            share = sum(stage.probability for stage in hidden)
            yield f"and {len(hidden)} further stages with {_percent(share)} together"
        yield (
            f"leave the rest idle: {_percent(found.end_probability)}, in the plan as number "
            f"{found.end_place}"
        )
        if found.limits:
            yield f"limits of this stage's job: {_limits(found.limits)}"
        if found.classes:
            yield f"executors for this stage: {_classes(found.classes)}"
        yield STAGES_LEGEND
    if found.attributions:
        yield ""
        yield reasons_table(found)
        yield _sum_line(found)
        yield REASONS_LEGEND
    if columns and found.attributions:
        yield ""
        yield attributions_table(found)
        yield COLUMNS_LEGEND
    if columns and found.limits:
        yield ""
        yield limits_table(found)
        yield "; ".join(f"{name}: {text}" for name, text in LIMIT_COLUMNS.items()) + "."
    if columns and found.classes:
        yield ""
        yield classes_table(found)
        yield "; ".join(f"{name}: {text}" for name, text in CLASS_COLUMNS.items()) + "."


def stages_table(found: Explanation) -> Table:
    """The likeliest stages: what the policy knows of them, then of their jobs."""
    table = _table("job", "arrival", "stage")
    for heading in ("first", "order", "waiting", "task", "path", "now"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("left", "holds", "here", "age"):
        table.add_column(heading, justify="right", no_wrap=True)
    for stage in found.stages[:MOST_STAGES]:
        table.add_row(
            escape(stage.job.name),
            str(stage.job.arrival),
            escape(stage.name),
            _percent(stage.probability),
            str(stage.place),
            f"{stage.wanted:,}",
            f"{stage.task_s:.2f} s",
            f"{stage.critical_path_s:.1f} s",
            "yes" if stage.runnable else "no",
            f"{stage.job.work_left_s:,.0f}",
            str(stage.job.held),
            str(stage.job.local),
            f"{stage.job.age_s:.1f} s",
            style="bold" if stage == found.taken else None,
        )
    return table


def reasons_table(found: Explanation) -> Table:
    """All reasons, what spoke most for the choice first."""
    table = _table("reason")
    for heading in ("this one", "average", "weight"):
        table.add_column(heading, justify="right", no_wrap=True)
    for reason in reasons(found):
        mean = amount(reason, reason.average)
        table.add_row(reason.name, amount(reason, reason.value), mean, f"{reason.part:+.2f}")
    return table


def attributions_table(found: Explanation) -> Table:
    """Every column that the network is told, the heaviest first."""
    table = _table("level", "column")
    for heading in ("value", "average", "own", "others", "weight"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it is")
    for part in sorted(found.attributions, key=lambda part: -abs(part.total)):
        table.add_row(
            part.level,
            part.column,
            "" if part.value is None else f"{part.value:.2f}",
            f"{part.baseline:.2f}",
            f"{part.own:+.2f}",
            f"{part.others:+.2f}",
            f"{part.total:+.2f}",
            COLUMNS[part.level, part.column].text,
        )
    return table


def limits_table(found: Explanation) -> Table:
    """What the network is told of each limit."""
    rows = ((str(shown.limit), shown) for shown in found.limits)
    return _told_table("limit of", LIMIT_COLUMNS, rows)


def classes_table(found: Explanation) -> Table:
    """What the network is told of each class of executors."""
    rows = ((f"{shown.memory_gb:g}", shown) for shown in found.classes)
    return _told_table("GB", CLASS_COLUMNS, rows)


def _told_table(
    what: str, columns: Iterable[str], rows: Iterable[tuple[str, LimitShown | ClassShown]]
) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in (what, "probability", *columns):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, shown in rows:
        told = (f"{value:.2f}" for value in shown.columns)
        table.add_row(name, _percent(shown.probability), *told)
    return table


def _sum_line(found: Explanation) -> str:
    explained = sum(part.total for part in found.attributions)
    return (
        f"together {explained:+.2f}: the logarithm of its probability to be first is "
        f"{found.log_prob:.2f}, and would be {found.baseline:.2f} if all choices were average"
    )


def _limits(limits: Sequence[LimitShown]) -> str:
    """The likeliest, the lowest limit first."""
    likeliest = sorted(limits, key=lambda shown: -shown.probability)[:MOST_LIMITS]
    words = [
        f"{shown.limit} ({_percent(shown.probability)})"
        for shown in sorted(likeliest, key=lambda shown: shown.limit)
    ]
    if len(limits) > len(likeliest):
        rest = 1 - sum(shown.probability for shown in likeliest)
        words.append(f"{len(limits) - len(likeliest)} others ({_percent(rest)})")
    return ", ".join(words)


def _classes(classes: Sequence[ClassShown]) -> str:
    return ", ".join(f"{one.memory_gb:g} GB ({_percent(one.probability)})" for one in classes)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _table(*headings: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table
