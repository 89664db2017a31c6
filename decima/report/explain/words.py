"""A decision in sentences: what was chosen, how likely it was, and which reasons weighed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from decima.report.explain.decision import Explanation, StageShown
from decima.report.explain.reasons import MESSAGES, Reason
from traces.files.names import counted

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


def in_words(found: Explanation) -> tuple[str, ...]:
    """Return sentences: the choice, its probability, the reasons for it and those against it."""
    sides = (
        ("For it", [one for one in found.reasons if one.weight > 0]),
        ("Against it", [one for one in found.reasons if one.weight < 0]),
    )
    reasons = [_listed(found, side, own[:MOST_REASONS]) for side, own in sides if own]
    return (_choice(found), *_likelihood(found), *reasons)


def values(found: Explanation, reason: Reason) -> tuple[str, str]:
    """Return the number behind a reason for the stage taken and its mean over all, or "" twice."""
    quantity = _QUANTITIES.get(reason.name)
    if quantity is None:
        return "", ""
    own = "" if found.taken is None else _figure(quantity, quantity.of(found.taken))
    return own, _figure(quantity, _mean(found, quantity))


def _mean(found: Explanation, quantity: _Quantity) -> float:
    return sum(quantity.of(stage) for stage in found.stages) / len(found.stages)


def _figure(quantity: _Quantity, value: float) -> str:
    return _number(quantity, value) + quantity.unit


def _number(quantity: _Quantity, value: float) -> str:
    """Format a value; means of small counts keep a decimal."""
    digits = quantity.digits if value >= 10 or float(value).is_integer() else 1
    return f"{value:,.{digits}f}"


def _choice(found: Explanation) -> str:
    stage = found.taken
    if stage is None:
        idle = f"{counted(found.on_offer, 'executor')} on offer stay{_s(found.on_offer)} idle"
        if not found.stages:
            return f"No stage may be chosen: {idle}."
        if found.decision > found.planned_at:
            return f"Nothing more is chosen: the round ends here.{_planned(found)}"
        return f"Nothing is chosen: {idle}."
    more = " more" if stage.job.held else ""
    memory = "" if found.taken_memory_gb is None else f" of {found.taken_memory_gb:g} GB"
    gets = (
        f"{stage.name} of {stage.job.name} (arrival {stage.job.arrival}) gets {found.given}{more} "
        f"executor{'' if found.given == 1 else 's'}{memory}: its job "
    )
    if found.decision > found.planned_at:
        return f"{gets}may hold {found.taken_limit}.{_planned(found)}"
    return f"{gets}holds {stage.job.held} and may now hold {found.taken_limit}."


def _planned(found: Explanation) -> str:
    number = found.decision - found.planned_at + 1
    return (
        f" This is choice {number} of the plan made at decision {found.planned_at}; the figures "
        "below are from that decision, and probabilities are those of coming first."
    )


def _likelihood(found: Explanation) -> Iterable[str]:
    """Give the probability of the choice, and the likeliest of what comes later in the plan."""
    if not found.stages:
        return
    own, place = found.end_probability, found.end_place
    if found.taken is not None:
        own, place = found.taken.probability, found.taken.place
    later = [
        (f"{one.name} of {one.job.name}", one.probability)
        for one in found.stages
        if one.place > place
    ]
    if found.end_place > place:
        later.append(("leaving the rest idle", found.end_probability))
    if not later:
        yield f"Its probability is {percent(own)}."
    else:
        name, chance = max(later, key=lambda option: option[1])
        drawn = " It was drawn, not the likeliest." if chance > own else ""
        yield f"Its probability is {percent(own)}; next is {name} with {percent(chance)}.{drawn}"
    if found.taken_limit is not None and len(found.limits) > 1:
        chance = sum(one.probability for one in found.limits if one.limit == found.taken_limit)
        lower = sum(one.probability for one in found.limits if one.limit < found.taken_limit)
        yield (
            f"Among {len(found.limits)} limits for its job, {found.taken_limit} has "
            f"{percent(chance)}; lower ones have {percent(lower)} together."
        )


def _listed(found: Explanation, side: str, reasons: Iterable[Reason]) -> str:
    return f"{side}: {'; '.join(_phrase(found, reason) for reason in reasons)}."


def _phrase(found: Explanation, reason: Reason) -> str:
    """Describe what the network observed of a reason."""
    stage, name = found.taken, reason.name
    if name == "cluster":
        return (
            f"the state of the cluster ({counted(found.jobs_in_system, 'job')} in the system, "
            f"{found.on_offer} of {counted(found.executors, 'executor')} on offer)"
        )
    if stage is None:
        mean = values(found, reason)[1]
        return f"the stages' {name}" + (f" ({mean} on average)" if mean else "")
    if name in _QUANTITIES:
        return _beside_mean(found, stage, _QUANTITIES[name])
    if name == "moving cost":
        return _moving(found, stage)
    memory = "" if stage.memory_gb is None else f" ({stage.memory_gb:g} GB)"
    return {
        "readiness": "it can start now" if stage.runnable else "it waits for its parents",
        "memory": f"the memory that a task needs{memory}",
        "limit": f"the size of the limit ({found.taken_limit})",
        MESSAGES: "the stages that come after it in its job (messages along the graph)",
    }[name]


def _beside_mean(found: Explanation, stage: StageShown, quantity: _Quantity) -> str:
    value, mean = quantity.of(stage), _mean(found, quantity)
    words = quantity.alike
    if value < LESS * mean:
        words = quantity.less
    elif value > MORE * mean:
        words = quantity.more
    return f"{words} ({_figure(quantity, value)}, on average {_number(quantity, mean)})"


def _moving(found: Explanation, stage: StageShown) -> str:
    given, there = found.given, stage.job.local
    if found.moving_delay_s == 0:
        return f"{there} of the {counted(found.on_offer, 'executor')} on offer are its own already"
    if there >= given:
        return "its executors are already there"
    if there == 0:
        return f"its executors have to move ({found.moving_delay_s:g} s each)"
    return (
        f"{there} of its {counted(given, 'executor')} are already there, the rest have to move "
        f"({found.moving_delay_s:g} s each)"
    )


def _s(count: int) -> str:
    return "s" if count == 1 else ""


def percent(share: float) -> str:
    """Format a probability."""
    return f"{100 * share:.1f} %"
