"""An explanation for the terminal: what was chosen, how likely it was, which reasons weighed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from decima.report.explain.decision import Explanation, StageShown
from decima.report.explain.reasons import LEAST_WEIGHT, MESSAGES, Reason
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
MOST_REASONS = 3  # reasons named for a choice, and as many against it
LESS, MORE = 0.8, 1.25  # multiples of the mean below and above which a value is called less or more


@dataclass(frozen=True)
class _Quantity:
    """A number behind a reason, with the words for it."""

    of: Callable[[StageShown], float]
    unit: str
    less: str
    alike: str
    more: str
    digits: int = 0


_QUANTITIES: Mapping[str, _Quantity] = {
    "work left": _Quantity(
        lambda stage: stage.job.work_left_s,
        " executor-seconds left",
        "its job is short",
        "its job is about as long as the others",
        "its job is long",
    ),
    "executors held": _Quantity(
        lambda stage: stage.job.held,
        " held",
        "its job holds few executors",
        "its job holds about as many executors as the others",
        "its job holds many executors",
    ),
    "tasks waiting": _Quantity(
        lambda stage: stage.wanted,
        " waiting",
        "few of its tasks are waiting",
        "about as many tasks are waiting as in the other stages",
        "many of its tasks are waiting",
    ),
    "task length": _Quantity(
        lambda stage: stage.task_s,
        " s each",
        "its tasks are short",
        "its tasks are about as long as the others",
        "its tasks are long",
        digits=1,
    ),
    "critical path": _Quantity(
        lambda stage: stage.critical_path_s,
        " s to the end of its job",
        "its critical path is short",
        "its critical path is about as long as the others",
        "its critical path is long",
        digits=1,
    ),
    "progress": _Quantity(
        lambda stage: 100 * stage.job.started_share,
        " % of its work started",
        "its job has just begun",
        "its job is about as far as the others",
        "its job is far along",
    ),
    "age": _Quantity(
        lambda stage: stage.job.age_s,
        " s since it arrived",
        "its job arrived recently",
        "its job arrived at about the same time as the others",
        "its job arrived long ago",
    ),
}


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
    yield table
    hidden = decision.stages[MOST_STAGES:]
    if hidden:
        share = sum(stage.probability for stage in hidden)
        yield f"and {counted(len(hidden), 'further stage')} with {percent(share)} together"
    yield (
        f"leave the rest idle: {percent(decision.end_probability)}, in the plan as number "
        f"{decision.end_place}"
    )
    if decision.limits:
        likeliest = sorted(decision.limits, key=lambda shown: -shown.probability)[:MOST_LIMITS]
        parts = [
            f"{shown.limit} ({percent(shown.probability)})"
            for shown in sorted(likeliest, key=lambda shown: shown.limit)
        ]
        if len(decision.limits) > len(likeliest):
            rest = 1 - sum(shown.probability for shown in likeliest)
            parts.append(f"{len(decision.limits) - len(likeliest)} others ({percent(rest)})")
        yield f"limits of this stage's job: {', '.join(parts)}"
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


def in_words(decision: Explanation) -> tuple[str, ...]:
    """Return sentences: the choice, its probability, the reasons for it and those against it."""
    sentences = [_choice(decision), *_likelihood(decision)]
    for side, sign in (("For it", 1), ("Against it", -1)):
        reasons = [reason for reason in decision.reasons if sign * reason.weight > 0]
        phrases = [_phrase(decision, reason) for reason in reasons[:MOST_REASONS]]
        if phrases:
            sentences.append(f"{side}: {'; '.join(phrases)}.")
    return tuple(sentences)


def values(decision: Explanation, reason: Reason) -> tuple[str, str]:
    """Return the number behind a reason for the stage taken and its mean over all, or "" twice."""
    quantity = _QUANTITIES.get(reason.name)
    if quantity is None:
        return "", ""
    mean = _number(quantity, _mean(decision, quantity)) + quantity.unit
    if decision.taken is None:
        return "", mean
    return _number(quantity, quantity.of(decision.taken)) + quantity.unit, mean


def _mean(decision: Explanation, quantity: _Quantity) -> float:
    return sum(quantity.of(stage) for stage in decision.stages) / len(decision.stages)


def _number(quantity: _Quantity, value: float) -> str:
    """Format a value; means of small counts keep a decimal."""
    digits = quantity.digits if value >= 10 or float(value).is_integer() else 1
    return f"{value:,.{digits}f}"


def _choice(decision: Explanation) -> str:
    stage = decision.taken
    if stage is None:
        stay = "stays" if decision.on_offer == 1 else "stay"
        idle = f"{counted(decision.on_offer, 'executor')} on offer {stay} idle"
        if not decision.stages:
            return f"No stage may be chosen: {idle}."
        if decision.decision > decision.planned_at:
            return f"Nothing more is chosen: the round ends here.{_planned(decision)}"
        return f"Nothing is chosen: {idle}."
    more = " more" if stage.job.held else ""
    memory = "" if decision.taken_memory_gb is None else f" of {decision.taken_memory_gb:g} GB"
    gets = (
        f"{stage.name} of {stage.job.name} (arrival {stage.job.arrival}) gets "
        f"{decision.given}{more} executor{'' if decision.given == 1 else 's'}{memory}: its job "
    )
    if decision.decision > decision.planned_at:
        return f"{gets}may hold {decision.taken_limit}.{_planned(decision)}"
    return f"{gets}holds {stage.job.held} and may now hold {decision.taken_limit}."


def _planned(decision: Explanation) -> str:
    number = decision.decision - decision.planned_at + 1
    return (
        f" This is choice {number} of the plan made at decision {decision.planned_at}; the figures "
        "below are from that decision, and probabilities are those of coming first."
    )


def _likelihood(decision: Explanation) -> Iterable[str]:
    """Give the probability of the choice, and the likeliest of what comes later in the plan."""
    if not decision.stages:
        return
    probability, place = decision.end_probability, decision.end_place
    if decision.taken is not None:
        probability, place = decision.taken.probability, decision.taken.place
    later = [
        (f"{stage.name} of {stage.job.name}", stage.probability)
        for stage in decision.stages
        if stage.place > place
    ]
    if decision.end_place > place:
        later.append(("leaving the rest idle", decision.end_probability))
    if not later:
        yield f"Its probability is {percent(probability)}."
    else:
        name, chance = max(later, key=lambda option: option[1])
        drawn = " It was drawn, not the likeliest." if chance > probability else ""
        yield (
            f"Its probability is {percent(probability)}; next is {name} with {percent(chance)}."
            f"{drawn}"
        )
    if decision.taken_limit is not None and len(decision.limits) > 1:
        chance = sum(
            shown.probability for shown in decision.limits if shown.limit == decision.taken_limit
        )
        lower = sum(
            shown.probability for shown in decision.limits if shown.limit < decision.taken_limit
        )
        yield (
            f"Among {len(decision.limits)} limits for its job, {decision.taken_limit} has "
            f"{percent(chance)}; lower ones have {percent(lower)} together."
        )


def _phrase(decision: Explanation, reason: Reason) -> str:
    stage, name = decision.taken, reason.name
    if name == "cluster":
        return (
            f"the state of the cluster ({counted(decision.jobs_in_system, 'job')} in the system, "
            f"{decision.on_offer} of {counted(decision.executors, 'executor')} on offer)"
        )
    if stage is None:
        mean = values(decision, reason)[1]
        return f"the stages' {name}" + (f" ({mean} on average)" if mean else "")
    if name in _QUANTITIES:
        quantity = _QUANTITIES[name]
        value, of_all = quantity.of(stage), _mean(decision, quantity)
        words = quantity.alike
        if value < LESS * of_all:
            words = quantity.less
        elif value > MORE * of_all:
            words = quantity.more
        figure = _number(quantity, value) + quantity.unit
        return f"{words} ({figure}, on average {_number(quantity, of_all)})"
    if name == "moving cost":
        given, executors = decision.given, stage.job.local
        each = f"{decision.moving_delay_s:g} s each"
        if decision.moving_delay_s == 0:
            on_offer = counted(decision.on_offer, "executor")
            return f"{executors} of the {on_offer} on offer are its own already"
        if executors >= given:
            return "its executors are already there"
        if executors == 0:
            return f"its executors have to move ({each})"
        return (
            f"{executors} of its {counted(given, 'executor')} are already there, the rest have to "
            f"move ({each})"
        )
    memory = "" if stage.memory_gb is None else f" ({stage.memory_gb:g} GB)"
    return {
        "readiness": "it can start now" if stage.runnable else "it waits for its parents",
        "memory": f"the memory that a task needs{memory}",
        "limit": f"the size of the limit ({decision.taken_limit})",
        MESSAGES: "the stages that come after it in its job (messages along the graph)",
    }[name]


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
