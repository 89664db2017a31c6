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
    """Describe what the network observed of a reason."""
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
        return _beside_mean(decision, stage, _QUANTITIES[name])
    if name == "moving cost":
        return _moving(decision, stage)
    memory = "" if stage.memory_gb is None else f" ({stage.memory_gb:g} GB)"
    return {
        "readiness": "it can start now" if stage.runnable else "it waits for its parents",
        "memory": f"the memory that a task needs{memory}",
        "limit": f"the size of the limit ({decision.taken_limit})",
        MESSAGES: "the stages that come after it in its job (messages along the graph)",
    }[name]


def _beside_mean(decision: Explanation, stage: StageShown, quantity: _Quantity) -> str:
    value, mean = quantity.of(stage), _mean(decision, quantity)
    words = quantity.alike
    if value < LESS * mean:
        words = quantity.less
    elif value > MORE * mean:
        words = quantity.more
    figure = _number(quantity, value) + quantity.unit
    return f"{words} ({figure}, on average {_number(quantity, mean)})"


def _moving(decision: Explanation, stage: StageShown) -> str:
    given, there = decision.given, stage.job.local
    if decision.moving_delay_s == 0:
        return (
            f"{there} of the {counted(decision.on_offer, 'executor')} on offer are its own already"
        )
    if there >= given:
        return "its executors are already there"
    if there == 0:
        return f"its executors have to move ({decision.moving_delay_s:g} s each)"
    return (
        f"{there} of its {counted(given, 'executor')} are already there, the rest have to move "
        f"({decision.moving_delay_s:g} s each)"
    )


def percent(share: float) -> str:
    """Format a probability."""
    return f"{100 * share:.1f} %"
