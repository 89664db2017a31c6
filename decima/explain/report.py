"""An explanation for people: lines and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from decima.explain.attribution import Attribution
from decima.explain.decision import Explanation, LimitShown

MOST_STAGES, MOST_LIMITS, MOST_COLUMNS = 12, 12, 14
"""rows shown; the rest is summed up in one line"""


def lines_of(found: Explanation) -> Iterator[RenderableType]:
    """What `decima explain` prints, one part after the other."""
    yield (
        f"decision {found.decision} at {found.time_s:.1f} s: {found.jobs_in_system} jobs in the "
        f"system, {found.on_offer} of {found.executors} executors on offer, "
        f"{len(found.stages)} stages to choose from\n"
    )
    yield stages_table(found)
    hidden = found.stages[MOST_STAGES:]
    if hidden:
        share = sum(stage.probability for stage in hidden)
        yield f"and {len(hidden)} further stages with {_percent(share)} together"
    yield f"leave the rest idle: {_percent(found.pass_probability)}"
    yield f"\ntaken: {_taken(found)}"
    if found.limits:
        yield f"limits of this stage: {_limits(found.limits)}"
    if found.attributions:
        yield ""
        yield attributions_table(found)
        yield _sum_line(found)


def stages_table(found: Explanation) -> Table:
    """The likeliest stages: what the policy knows of them, then of their jobs."""
    table = _table("job", "arrival", "stage")
    for heading in ("probability", "wanted", "task s", "path s", "runnable"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("work left s", "held", "age s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for stage in found.stages[:MOST_STAGES]:
        table.add_row(
            escape(stage.job.name),
            str(stage.job.arrival),
            escape(stage.name),
            _percent(stage.probability),
            f"{stage.wanted:,}",
            f"{stage.task_s:.2f}",
            f"{stage.critical_path_s:.1f}",
            "yes" if stage.runnable else "no",
            f"{stage.job.work_left_s:,.0f}",
            str(stage.job.held),
            f"{stage.job.age_s:.1f}",
            style="bold" if stage == found.taken else None,
        )
    return table


def attributions_table(found: Explanation) -> Table:
    """The columns with the largest parts in the log-probability of what was taken."""
    table = _table("level", "column")
    for heading in ("value", "average", "its own", "of the others", "together"):
        table.add_column(heading, justify="right", no_wrap=True)
    ranked = sorted(found.attributions, key=lambda part: -abs(part.total))
    for part in ranked[:MOST_COLUMNS]:
        table.add_row(
            part.level,
            part.column,
            "" if part.value is None else f"{part.value:.2f}",
            f"{part.baseline:.2f}",
            *_parts([part]),
        )
    rest = ranked[MOST_COLUMNS:]
    table.add_row("all", f"{len(rest)} further columns", "", "", *_parts(rest))
    return table


def _parts(group: Sequence[Attribution]) -> tuple[str, str, str]:
    own = sum(part.own for part in group)
    others = sum(part.others for part in group)
    return f"{own:+.2f}", f"{others:+.2f}", f"{own + others:+.2f}"


def _sum_line(found: Explanation) -> str:
    explained = sum(part.total for part in found.attributions)
    return (
        f"together {explained:+.2f}: the log-probability of what was taken is "
        f"{found.log_prob:.2f}; it would be {found.baseline:.2f} if all choices had average columns"
    )


def _taken(found: Explanation) -> str:
    stage = found.taken
    if stage is None:
        return "nothing, the executors on offer stay idle"
    return (
        f"{escape(stage.name)} of {escape(stage.job.name)} (arrival {stage.job.arrival}), "
        f"limit {found.taken_limit}; the job holds {stage.job.held} executors"
    )


def _limits(limits: Sequence[LimitShown]) -> str:
    """The likeliest, the lowest limit first."""
    likeliest = sorted(limits, key=lambda shown: -shown.probability)[:MOST_LIMITS]
    words = [
        f"{shown.limit} ({_percent(shown.probability)})"
        for shown in sorted(likeliest, key=lambda shown: shown.limit)
    ]
    rest = sum(shown.probability for shown in limits) - sum(one.probability for one in likeliest)
    if len(limits) > len(likeliest):
        words.append(f"{len(limits) - len(likeliest)} others ({_percent(rest)})")
    return ", ".join(words)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _table(*headings: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table
