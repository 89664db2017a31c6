"""A decision in sentences: what was chosen, and what spoke for and against it.

The attributions say which reasons weighed and which way; the values of the stage taken, beside the
mean over all that could be chosen, say what was the case ("its job is short").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from decima.explain.decision import Explanation, StageShown
from decima.explain.legend import COLUMNS, REASONS
from files.names import counted

WEIGHTY = 0.05
"""a reason is told if it has this share of all that spoke for the choice"""
MOST_REASONS = 3
FEW, MANY = 0.8, 1.25
"""below and above this multiple of the mean something is told to be less or more"""


@dataclass(frozen=True)
class Reason:
    """What spoke for a choice, or against it."""

    name: str
    """one of `legend.REASONS`"""
    part: float
    """of the difference in log-probability to a choice among average ones; above 0: for it"""
    value: float | None
    """of the stage taken; None where nothing was, and for the cluster"""
    average: float
    """over all stages that could be chosen"""


@dataclass(frozen=True)
class _Quantity:
    """One number behind a reason, and how to say it."""

    of: Callable[[StageShown], float]
    unit: str
    digits: int
    less: str
    alike: str
    more: str


_QUANTITIES: Mapping[str, _Quantity] = {
    "place": _Quantity(lambda shown: shown.job.local, "of those on offer", 0, "", "", ""),
    "work": _Quantity(
        lambda shown: shown.job.work_left_s,
        "executor-seconds left",
        0,
        "its job is short",
        "its job is about as long as the others",
        "its job is long",
    ),
    "tasks": _Quantity(
        lambda shown: shown.task_s,
        "s each",
        1,
        "its tasks are short",
        "its tasks are about as long as others",
        "its tasks are long",
    ),
    "held": _Quantity(
        lambda shown: shown.job.held,
        "held",
        0,
        "its job holds few executors",
        "its job holds about as many executors as the others",
        "its job holds many executors",
    ),
    "path": _Quantity(
        lambda shown: shown.critical_path_s,
        "s to the end of its job",
        1,
        "little comes after it",
        "about as much comes after it as after the others",
        "a long path begins with it",
    ),
    "start": _Quantity(lambda shown: shown.runnable, "", 0, "", "", ""),
    "waiting": _Quantity(
        lambda shown: shown.wanted,
        "waiting",
        0,
        "few of its tasks wait",
        "about as many of its tasks wait as of the others",
        "many of its tasks wait",
    ),
    "progress": _Quantity(
        lambda shown: 100 * shown.job.open_share,
        "% of its stages open",
        0,
        "its job has only begun",
        "its job is about as far as the others",
        "its job is far along",
    ),
    "age": _Quantity(
        lambda shown: shown.job.age_s,
        "s since it arrived",
        0,
        "its job came lately",
        "its job came when the others did",
        "its job came long ago",
    ),
}


def reasons(found: Explanation) -> tuple[Reason, ...]:
    """All reasons, what spoke most for the choice first; their parts add up as the columns' do."""
    part = dict.fromkeys(REASONS, 0.0)
    for one in found.attributions:
        part[COLUMNS[one.level, one.column].reason] += one.total
    told = [
        Reason(name, part[name], *_value_and_average(found, name))
        for name in REASONS
        if found.attributions
    ]
    return tuple(sorted(told, key=lambda reason: -reason.part))


def in_words(found: Explanation) -> tuple[str, ...]:
    """Two or three sentences: the choice, why, and what else was likely."""
    return tuple(sentence for sentence in (_choice(found), _why(found), _else(found)) if sentence)


def amount(reason: Reason, number: float | None) -> str:
    """`number`, in the unit of `reason`."""
    quantity = _QUANTITIES.get(reason.name)
    if quantity is None or number is None:
        return ""
    if reason.name == "start":
        return f"{100 * number:.0f} % can start now"
    return f"{_figure(quantity, number)} {quantity.unit}"


def _figure(quantity: _Quantity, number: float) -> str:
    """Means of small counts keep a decimal."""
    digits = quantity.digits if number >= 10 or number.is_integer() else 1
    return f"{number:,.{digits}f}"


def _value_and_average(found: Explanation, name: str) -> tuple[float | None, float]:
    quantity = _QUANTITIES.get(name)
    if quantity is None:
        return None, math.nan
    average = sum(quantity.of(shown) for shown in found.stages) / len(found.stages)
    return (None if found.taken is None else float(quantity.of(found.taken))), average


def _choice(found: Explanation) -> str:
    stage = found.taken
    if stage is None:
        idle = counted(found.on_offer, "executor")
        if not found.stages:
            return f"No stage may be chosen: {idle} on offer stay{_s(found.on_offer)} idle."
        if found.decision > found.planned_at:
            return f"Nothing more is chosen: the round ends here.{_planned(found)}"
        return f"Nothing is chosen: {idle} on offer stay{_s(found.on_offer)} idle."
    more = f" {found.given} more" if stage.job.held else f" {found.given}"
    gets = (
        f"{stage.name} of {stage.job.name} (arrival {stage.job.arrival}) gets{more} "
        f"executor{'' if found.given == 1 else 's'}{_size(found)}: its job "
    )
    if found.decision > found.planned_at:
        return f"{gets}may hold {found.taken_limit}.{_planned(found)}"
    return f"{gets}holds {stage.job.held} and may now hold {found.taken_limit}."


def _size(found: Explanation) -> str:
    return "" if found.taken_memory_gb is None else f" of {found.taken_memory_gb:g} GB"


def _planned(found: Explanation) -> str:
    number = found.decision - found.planned_at + 1
    return (
        f" This is choice {number} of the plan made at decision {found.planned_at}; all that is "
        "told here is of then, probabilities of being chosen first."
    )


def _why(found: Explanation) -> str:
    if not found.stages:
        return ""
    told = reasons(found)
    behind = sum(max(0.0, reason.part) for reason in told)
    causes = [one for one in told if one.part > 0 and one.part >= WEIGHTY * behind]
    doubts = [one for one in told[::-1] if one.part < 0 and -one.part >= WEIGHTY * behind]
    lines = []
    if causes:
        lines.append("Why: " + _listed(found, causes[:MOST_REASONS]) + ".")
    if doubts:
        lines.append("Against it: " + _listed(found, doubts[:1]) + ".")
    return " ".join(lines)


def _else(found: Explanation) -> str:
    """The likeliest of the choices that the plan has further on; whether it was likelier."""
    if not found.stages:
        return ""
    own, place = found.end_probability, found.end_place
    if found.taken is not None:
        own, place = found.taken.probability, found.taken.place
    options = [
        (f"{one.name} of {one.job.name}", one.probability)
        for one in found.stages
        if one.place > place
    ]
    if found.end_place > place:
        options.append(("leaving the rest idle", found.end_probability))
    if not options:
        return f"It had {_percent(own)}."
    name, chance = max(options, key=lambda option: option[1])
    drawn = " It was drawn, not the likeliest." if chance > own else ""
    return f"It had {_percent(own)}; next is {name} with {_percent(chance)}.{drawn}"


def _listed(found: Explanation, told: Sequence[Reason]) -> str:
    return "; ".join(_phrase(found, reason) for reason in told)


def _phrase(found: Explanation, reason: Reason) -> str:
    """What was the case, with its figures."""
    stage = found.taken
    if reason.name == "cluster":
        return (
            f"the state of the cluster ({found.jobs_in_system} jobs in the system, "
            f"{found.on_offer} of {found.executors} executors on offer)"
        )
    if reason.name == "rule":
        return _by_rule(found)
    if stage is None or reason.value is None:
        return f"what could be chosen (on average {amount(reason, reason.average)})"
    if reason.name == "place":
        return _place(found, stage)
    if reason.name == "start":
        return "it can start now" if stage.runnable else "it waits for its parents"
    if reason.name == "held" and reason.value == 0:
        return "its job holds no executor"
    quantity = _QUANTITIES[reason.name]
    words = quantity.alike
    if reason.value < FEW * reason.average:
        words = quantity.less
    elif reason.value > MANY * reason.average:
        words = quantity.more
    average = _figure(quantity, reason.average)
    return f"{words} ({amount(reason, reason.value)}, on average {average})"


def _by_rule(found: Explanation) -> str:
    """Where the fitted rule has the choice."""
    order = _told(found, "rule", "order")
    if order is None:
        return "what the fitted rule makes of it"
    if found.taken is None:
        return f"the fitted rule would end the round after {_choices(-order)}"
    if _told(found, "stage", "planned") == 0:
        return "the fitted rule would not choose it"
    return f"the fitted rule would choose it as number {1 - order:.0f}"


def _told(found: Explanation, level: str, column: str) -> float | None:
    """What the network is told of the choice in one column."""
    own = (one.value for one in found.attributions if (one.level, one.column) == (level, column))
    return next(own, None)


def _choices(count: float) -> str:
    return f"{count:.0f} choice{'' if count == 1 else 's'}"


def _place(found: Explanation, stage: StageShown) -> str:
    given, there = found.given, stage.job.local
    if found.moving_delay_s == 0:
        return f"{there} of the {counted(found.on_offer, 'executor')} on offer are its own already"
    if there >= given:
        return "its executors are already there, nothing has to move"
    if there == 0:
        return f"its executors have to move ({found.moving_delay_s:g} s each)"
    return (
        f"{there} of its {counted(given, 'executor')} are already there, the rest have to move "
        f"({found.moving_delay_s:g} s each)"
    )


def _s(count: int) -> str:
    return "s" if count == 1 else ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
