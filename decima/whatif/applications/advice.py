"""Sentences of a what-if of several applications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from decima.rl.statistics import Estimate, difference_percent
from decima.whatif import load
from decima.whatif.advice import (
    LITTLE_WAITING_PERCENT,
    TAIL_PRICE_PERCENT,
    WORTH_A_CHANGE,
    can_be_trusted,
    distrust_words,
    part_of,
    sure_words,
)
from decima.whatif.applications.settings import DYNAMIC, FIFO, OWN_WAYS, RECORDED, STATIC
from decima.whatif.applications.study import ApplicationsWhatIf
from decima.whatif.applications.workload import names_of, slots_each
from decima.whatif.caveats import FEW_JOBS, of_the_logs
from decima.whatif.replay.report import TRUSTED_PERCENT
from decima.whatif.report import percent, seconds, share, signed
from traces.files.names import counted
from traces.numbers import MS_PER_S, Float64

_CHANGE = 0.01
"""relative change of an application's average that counts as gain or loss"""
_MOST_NAMED = 4
SETTINGS = (STATIC, FIFO, DYNAMIC)
"""ways that Spark has itself"""


class ApplicationChange(NamedTuple):
    """One application under the reference and under another way; averages over jobs and draws."""

    name: str
    jobs: int
    reference_s: float
    way_s: float

    @property
    def change(self) -> float:
        """Relative change."""
        return self.way_s / self.reference_s - 1

    def words(self) -> str:
        """The name, its change and its new average."""
        return f"{self.name} {signed(self.change)} (to {seconds(self.way_s)})"


def changes(found: ApplicationsWhatIf, way: str) -> list[ApplicationChange]:
    """Every application, the one that gains most first."""
    rows = found.recording.application
    reference_s, way_s = (one.jct_s.mean(axis=0) for one in (found.reference, found.ways[way]))
    every = [
        ApplicationChange(
            name,
            int((rows == place).sum()),
            float(reference_s[rows == place].mean()),
            float(way_s[rows == place].mean()),
        )
        for place, name in enumerate(names_of(found.recording))
    ]
    return sorted(every, key=lambda one: one.change)


def findings(found: ApplicationsWhatIf) -> Iterator[str]:
    """Describe the largest change, who gains and loses, and its cost, if the replay is right."""
    check = found.check()
    if not can_be_trusted(check):
        yield distrust_words(check)
        return
    waiting = _waiting(found)
    yield _waiting_words(found, waiting)
    others = [name for name in found.settings.ways if name != found.settings.reference]
    if not others:
        return
    best = best_way(found)
    if waiting.upper < LITTLE_WAITING_PERCENT:
        yield f"Average JCT against {found.settings.reference}: {_each(found, others)}."
        return
    if best is None:
        yield (
            f"No other way is better than {found.settings.reference} with certainty: "
            f"{_each(found, others)}."
        )
        return
    yield _best_words(found, best)
    yield sure_words(check)
    rest = [name for name in others if name != best]
    if rest:
        yield f"The other ways: {_each(found, rest)}."
    yield _who_words(found, best)
    yield _cost_words(found, best)
    yield how_words(found, best)


def best_way(found: ApplicationsWhatIf) -> str | None:
    """The way with the lowest average JCT; None if that is the reference, or none is so surely.

    A setting of Spark is preferred to a policy that is hardly better.
    """
    sure = [
        name
        for name in found.settings.ways
        if name not in (found.settings.reference, RECORDED) and found.is_surely_lower(name)
    ]
    averages = {
        name: found.of_draws(name).mean - (100 * WORTH_A_CHANGE if name in SETTINGS else 0.0)
        for name in sure
    }
    return min(averages, key=lambda name: averages[name], default=None)


def _waiting(found: ApplicationsWhatIf) -> Estimate:
    """Percent of the average JCT that is due to other applications."""
    avg_s: Float64 = found.reference.avg_s
    return part_of(avg_s - found.alone.avg_s, avg_s).within(0.0, 100.0)


def _waiting_words(found: ApplicationsWhatIf, waiting: Estimate) -> str:
    is_little = waiting.upper < LITTLE_WAITING_PERCENT
    words = (
        f"Do applications wait for executors? {'Hardly' if is_little else 'Yes'}. With "
        f"{_division(found.settings.reference)} a job takes "
        f"{seconds(float(found.reference.avg_s.mean()))} on average; if its application had all "
        f"{counted(found.workload.executors, 'executor')} to itself, "
        f"{seconds(float(found.alone.avg_s.mean()))}."
    )
    if is_little:
        return f"{words} Another division has next to nothing to gain."
    return f"{words} Other applications cost {share(waiting)} of it: a division can save no more."


def _division(name: str) -> str:
    return "the recorded executors" if name == RECORDED else name


def _each(found: ApplicationsWhatIf, names: list[str]) -> str:
    return ", ".join(f"{name} {percent(found.of_draws(name))}" for name in names)


def _best_words(found: ApplicationsWhatIf, best: str) -> str:
    tail = difference_percent(found.ways[best].p95_s, found.reference.p95_s)
    words = (
        f"What would change most: {best} instead of {_division(found.settings.reference)}. Average "
        f"JCT {percent(found.of_draws(best))} over draws of task durations, "
        f"{percent(found.of_jobs(best))} over stretches of the jobs; p95 {percent(tail)}"
    )
    return f"{words}: the slowest jobs pay." if tail.mean > TAIL_PRICE_PERCENT else f"{words}."


def _who_words(found: ApplicationsWhatIf, best: str) -> str:
    every = changes(found, best)
    gain = [one.words() for one in every if one.change < -_CHANGE]
    lose = [one.words() for one in reversed(every) if one.change > _CHANGE]
    return (
        f"For whom: of {counted(len(every), 'application')} {len(gain):,} "
        f"{'gains' if len(gain) == 1 else 'gain'}{_named(gain)}; {len(lose):,} "
        f"{'loses' if len(lose) == 1 else 'lose'}{_named(lose)}."
    )


def _named(words: list[str]) -> str:
    if not words:
        return ""
    more = f" and {len(words) - _MOST_NAMED:,} more" if len(words) > _MOST_NAMED else ""
    return f": {', '.join(words[:_MOST_NAMED])}{more}"


def _cost_words(found: ApplicationsWhatIf, best: str) -> str:
    way, reference = found.ways[best], found.reference
    held = difference_percent(way.held_s, reference.held_s)
    return (
        f"What it costs: applications hold executors for {percent(held)} time, and "
        f"{way.starts.mean():,.0f} executors are started, each in "
        f"{seconds(found.workload.delay_ms / MS_PER_S)}."
    )


def how_words(found: ApplicationsWhatIf, best: str) -> str:
    """Describe how to get a way on a live cluster."""
    workload = found.workload
    if best == STATIC:
        number = max(1, workload.executors // workload.at_once) * workload.slots_each
        return f"How: set spark.cores.max={number} (for tasks of one core) in each application."
    if best == FIFO:
        return "How: leave spark.cores.max and spark.dynamicAllocation.enabled unset."
    if best == DYNAMIC:
        return (
            "How: set spark.dynamicAllocation.enabled=true, with a shuffle service or "
            "spark.dynamicAllocation.shuffleTracking.enabled=true."
        )
    return (
        f"How: decima coordinate --slots {workload.executors} --policy {best}, and the plugin in "
        "each application (docs/applications.md)."
    )


def caveats(found: ApplicationsWhatIf) -> Iterator[str]:
    """Yield the reasons to doubt the findings."""
    recording, workload = found.recording, found.workload
    fidelity = found.check().fidelity("all")
    if fidelity is not None and fidelity.above(TRUSTED_PERCENT):
        yield (
            f"With the recorded executors, simulated jobs are {fidelity.median_error_percent:.0f} "
            f"% off (median), {fidelity.bias_percent:+.0f} % on average: differences of that size "
            "mean little."
        )
    yield from of_the_logs(recording.summary)
    if found.has_repeats:
        yield (
            f"The {found.settings.draws} draws of task durations are identical, since all tasks of "
            "a stage took equally long: they count as one."
        )
    missing = load.unfinished(recording)
    if missing > 0:
        yield f"{counted(missing, 'job')} had not ended when a log did and had to be left out."
    if len(recording.trace.jobs) < FEW_JOBS:
        yield (
            f"{counted(len(recording.trace.jobs), 'job')} are few: one long job moves the "
            "averages. Record for longer."
        )
    if not found.is_delay_measured and found.settings.moving_delay_s is None:
        yield (
            f"An executor takes {seconds(workload.delay_ms / MS_PER_S)} to come: an assumption, as "
            "these logs do not show it. --moving-delay takes another."
        )
    if len({one.slots_each for one in recording.behaviours}) > 1:
        yield (
            "The applications had executors of several sizes: here each has "
            f"{counted(slots_each(recording), 'slot')}, and on that depends who gets how many."
        )
    yield from _of_the_ways(found)
    if workload.executors * workload.slots_each > max(recording.slots):
        yield "An application that gets more slots than it had runs tasks as quickly as recorded."


def _of_the_ways(found: ApplicationsWhatIf) -> Iterator[str]:
    ways = found.settings.ways
    if DYNAMIC in ways:
        yield (
            "dynamic follows each application's load by Spark's rules. Executors that stay since "
            "they hold shuffle data, and clusters that share otherwise than standalone, are not "
            "simulated."
        )
    policies = [name for name in ways if name not in OWN_WAYS]
    if policies and found.settings.estimates == "exact":
        yield (
            f"{', '.join(policies)}: the coordinator knows here how long tasks take. Live it does "
            "for queries that it has priors of; --estimates none shows it without."
        )
    yield (
        "Inside an application, tasks go in Spark's own order everywhere. Applications start as "
        "recorded, and wait for no other application's end."
    )
