"""Simulation of other policies on the jobs of a decision log.

This is the purpose of shadow mode: the jobs ran under Spark's own scheduler, and the figures show
what the policy would have changed. The simulator's shared session knows the jobs only as they were
measured: one mean duration for each stage. What Spark itself took of each job's time (planning,
submission, first decisions) was measured too, and is added to every simulated JCT.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from decima.policy_names import is_learned
from decima.registry import HEURISTICS, Parameters
from decima.spark.auto import AUTO
from decima.spark.decision_log import MODE_APPLICATIONS, DecisionHistory
from decima.spark.replay import simulated_s
from decima.spark.settings import AttachError
from traces.files.names import counted
from traces.files.pictures import save_figure
from traces.numbers import Float64

SUFFIXES = (".svg", ".png")
REVIEWED = ("fifo", "spark_fair", "strict_fair")
"""played for every log"""
_OTHERS = "others"
_DRAWN_JOBS = 12
_NAMED_JOBS = 3
TRUSTED = 0.1
"""largest error of a simulated run, against the real one of the same policy, that is still
trusted"""


@dataclass(frozen=True)
class Review:
    """The jobs of a log, as they ran and as simulated under other policies."""

    names: tuple[str, ...]
    """K jobs, by arrival"""
    slots: int
    jct_s: Float64
    """(K,) as they ran; NaN where a job had not ended"""
    own_s: Float64
    """(K,) of that what Spark itself took; NaN where that is not known"""
    simulated_s: dict[str, Float64]
    """by policy: (K,), Spark's own time included"""
    ran: str
    """the policy that really decided; under policy "auto" the one that decided most"""
    decided: Mapping[str, int]
    """under policy "auto": by policy, plans in force"""
    compared: int
    """jobs that `error` is of: those that ended; under policy "auto" those of them during which
    `ran` alone decided"""
    error: float | None
    """mean JCT of these jobs, simulated under `ran`, over that as they ran, minus 1; None where
    there are none or the simulator does not have the policy"""
    left_out: tuple[str, ...] = ()
    """jobs without a successful task, so that their durations are unknown"""
    lost_slots: int = 0
    """the most that these held at a plan; the simulator gives them to others"""
    moving_delay_ms: float | None = None
    """of a coordinator's log, as measured; None for a session"""

    @property
    def is_trusted(self) -> bool:
        """True if the simulator's known error is small enough."""
        return self.error is None or abs(self.error) <= TRUSTED


class Row(NamedTuple):
    """A line of the comparison: the jobs that ended, as they ran or as simulated."""

    label: str
    jct_s: Float64
    """the same jobs in every line"""
    versus: float | None
    """mean JCT over that of the first policy, minus 1; None if meaningless"""


def rows(result: Review, decisions: DecisionHistory) -> list[Row]:
    """The jobs as they ran, then under each policy; all jobs where none ended."""
    has_ended = ~np.isnan(result.jct_s)
    # The same jobs everywhere: those that were cut off would only be there in the simulator.
    compared = has_ended if has_ended.any() else np.ones(len(result.names), np.bool_)
    lines = []
    if has_ended.any():
        ran = f"as it ran ({decisions.policy}, {decisions.mode})"
        lines.append(Row(ran, result.jct_s[has_ended], None))
    first_s: float | None = None
    for name, jct_s in result.simulated_s.items():
        mean_s = float(jct_s[compared].mean())
        versus = None if first_s is None else mean_s / first_s - 1
        first_s = mean_s if first_s is None else first_s
        lines.append(Row(f"simulated: {name}", jct_s[compared], versus))
    return lines


def words(result: Review) -> Iterator[str]:
    """Describe how many jobs there were and how accurate the simulated figures are."""
    ended = int((~np.isnan(result.jct_s)).sum())
    jobs, slots = counted(len(result.names), "job"), counted(result.slots, "slot")
    yield f"{jobs}, {ended} of them ended; {slots}."
    if result.moving_delay_ms is not None:
        yield (
            "Each job is simulated as an application of its own, with the measured "
            f"{result.moving_delay_ms / 1000:.1f} s to start an executor."
        )
    if result.left_out:
        names = _some(result.left_out)
        yield f"{len(result.left_out):,} more left out, no task succeeded: {names}."
    if result.left_out and result.lost_slots > 0:
        yield (
            "But: slots held by tasks that did not succeed are not simulated (jobs left out held "
            f"up to {result.lost_slots} at once), so simulated times are too short where there are "
            "many."
        )
    own_s = result.own_s[~np.isnan(result.own_s)]
    if len(own_s):
        yield f"Spark itself took {own_s.mean():.2f} s of a job's time on average, here as there."
    if result.decided:
        plans = ", ".join(f"{name} {count:,}" for name, count in result.decided.items())
        yield f"Plans in force under auto, by the policy that decided: {plans}."
    if result.decided and result.error is not None:
        yield (
            f"{result.ran} is {100 * result.error:+.0f} % off in the simulator, over the jobs "
            f"during which it alone decided: {result.compared} of those that ended."
        )
    if result.error is None:
        yield f"The simulator's error is unknown: {_why_unknown(result, ended)}."
    elif not result.is_trusted:
        yield (
            f"But: {result.ran}, which really ran, is {100 * result.error:+.0f} % off in the "
            "simulator: smaller differences mean nothing."
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_JOBS
    return ", ".join(names[:_NAMED_JOBS]) + (f" and {more:,} more" if more > 0 else "")


def _why_unknown(result: Review, ended: int) -> str:
    if ended == 0:
        return "no job ended"
    if result.ran == AUTO and not result.decided:
        return "auto put no policy in force, and the log does not name Spark's own order"
    if not is_playable(result.ran):
        return f"it has no {result.ran!r}"
    if result.compared == 0:
        return f"during no job that ended did {result.ran} alone decide"
    return "the jobs that ended took no time"


def is_playable(policy: str) -> bool:
    """Return whether the simulator has the policy, which excludes objects of the application."""
    return policy in HEURISTICS or is_learned(policy)


def reviewed_policies(decisions: DecisionHistory) -> tuple[str, ...]:
    """Default policies of a review: `REVIEWED`, then the policy of the log.

    Of policy "auto" that is the one that decided most, in shadow or in force. An object of the
    application's own cannot be played again.
    """
    by = Counter(plan.by for plan in decisions.plans)
    ran = decisions.policy if decisions.policy != AUTO else max(by, key=by.__getitem__, default="")
    return tuple(dict.fromkeys((*REVIEWED, *([ran] if is_playable(ran) else []))))


def review(
    decisions: DecisionHistory,
    policies: tuple[str, ...],
    parameters: Mapping[str, Parameters] | None = None,
) -> Review:
    """Play the jobs of a log under each policy.

    Args:
        decisions: the log.
        policies: by name.
        parameters: of heuristics, by name; that of the log has those under which it was attached.

    Raises:
        AttachError: the log holds no job that ran, or no plan.
        PolicyError, ModelError: there is no such policy or model.
    """
    logged, plans = decisions.jobs, decisions.plans
    left_out = tuple(job.name for job in decisions.unmeasured)
    if left_out and not logged:
        raise AttachError(f"this log holds no job of which a task succeeded: {_some(left_out)}")
    if not logged:
        raise AttachError("this log holds no job that ran: it was cut, or closed at once")
    if not plans:
        raise AttachError(
            f"this log holds {len(logged)} jobs and no plan: Spark's own order ruled all the time, "
            "and the number of slots is only in plans"
        )
    slots = max(plan.slots for plan in plans)
    delay_ms = None
    if decisions.mode == MODE_APPLICATIONS:
        delay_ms = float(np.median([plan.moving_delay_ms or 0 for plan in plans]))
    # Two runs of one query are two jobs, with durations of their own.
    jobs = [replace(job.job, name=f"{n} {job.job.name}") for n, job in enumerate(logged)]
    arrival_ms = np.array([job.arrival_ms for job in logged], float)
    arrival_s = (arrival_ms - arrival_ms[0]) / 1000
    own_s = np.array([np.nan if job.own_ms is None else job.own_ms for job in logged]) / 1000

    def played_s(name: str, values: Parameters | None) -> Float64:
        return simulated_s(jobs, arrival_s, slots, name, values, delay_ms) + np.nan_to_num(own_s)

    by_policy = {decisions.policy: decisions.parameters or None, **(parameters or {})}
    simulated = {name: played_s(name, by_policy.get(name)) for name in policies}
    ends_ms = [np.nan if job.completion_ms is None else job.completion_ms for job in logged]
    jct_s = (np.array(ends_ms, float) - arrival_ms) / 1000
    ran, decided, is_compared = decisions.ran, dict[str, int](), ~np.isnan(jct_s)
    if ran == AUTO:
        decided = dict(Counter(plan.by for plan in plans if plan.is_in_force).most_common())
        ran = next(iter(decided), AUTO)
        is_compared &= _alone(decisions, ran)
    error = None
    if is_playable(ran) and is_compared.any() and jct_s[is_compared].any():
        ran_s = played_s(ran, (decisions.parameters or None) if ran == decisions.policy else None)
        error = float(ran_s[is_compared].mean() / jct_s[is_compared].mean() - 1)
    unmeasured = {job.key for job in decisions.unmeasured}
    lost = (sum(tasks.running for tasks in plan.sets if tasks.job in unmeasured) for plan in plans)
    return Review(
        names=tuple(job.job.name for job in logged),
        slots=slots,
        jct_s=jct_s,
        own_s=own_s,
        simulated_s=simulated,
        ran=ran,
        decided=decided,
        compared=int(is_compared.sum()),
        error=error,
        left_out=left_out,
        lost_slots=max(lost, default=0),
        moving_delay_ms=delay_ms,
    )


def _alone(decisions: DecisionHistory, policy: str) -> NDArray[np.bool_]:
    """(K,) of jobs that ended: whether plans were made meanwhile, all in force and by `policy`."""
    time_ms = np.array([plan.time_ms for plan in decisions.plans])
    is_its = [plan.is_in_force and plan.by == policy for plan in decisions.plans]
    its_before = np.concatenate([[0], np.cumsum(is_its)])
    first = np.searchsorted(time_ms, [job.arrival_ms for job in decisions.jobs], "left")
    # A job that has not ended is not compared.
    ends_ms = [job.completion_ms or job.arrival_ms for job in decisions.jobs]
    end = np.searchsorted(time_ms, ends_ms, "right")
    is_alone: NDArray[np.bool_] = (end > first) & (
        its_before[end] - its_before[first] == end - first
    )
    return is_alone


def check_picture(path: Path) -> None:
    """Refuse (AttachError) a picture of another kind now, not after the simulation."""
    if path.suffix.lower() not in SUFFIXES:
        raise AttachError(f"{path}: suffix {path.suffix!r} is none of {', '.join(SUFFIXES)}")


def draw_decisions(decisions: DecisionHistory, path: Path) -> None:
    """Draw the slots that each job held over time, as the log saw them at each plan.

    The suffix chooses SVG or PNG; AttachError for another one. FileError: it cannot be written.
    """
    check_picture(path)
    if not decisions.plans:
        raise AttachError("this log holds no plan: there is nothing to draw")
    time_s, held = held_slots(decisions)
    with rc_context({"font.size": 8.5}):
        figure = Figure(figsize=(10, 4), layout="constrained")
        axes = figure.subplots()
        axes.stackplot(time_s, *held.values(), labels=list(held), step="post", linewidth=0)
        axes.step(time_s, [plan.slots for plan in decisions.plans], "k", lw=0.8, where="post")
        axes.set(xlabel="seconds", ylabel="slots", xlim=(0, max(time_s[-1], 1e-3)), ylim=(0, None))
        axes.set_title(f"{decisions.policy}, {decisions.mode}: slots held, by job", loc="left")
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        save_figure(figure, path, path.suffix.lower()[1:])


def held_slots(decisions: DecisionHistory) -> tuple[Float64, dict[str, Float64]]:
    """(P,) seconds since the first plan, and by job (P,) slots held; small jobs are one."""
    begin_ms = decisions.plans[0].time_ms
    time_s = np.array([(plan.time_ms - begin_ms) / 1000 for plan in decisions.plans])
    held: dict[str, Float64] = {}
    for index, plan in enumerate(decisions.plans):
        for tasks in plan.sets:
            row = held.setdefault(tasks.job, np.zeros(len(decisions.plans)))
            row[index] += tasks.running
    by_size = sorted(held, key=lambda job: -held[job].sum())
    drawn = {job: held[job] for job in held if job in by_size[:_DRAWN_JOBS]}
    rest = [held[job] for job in by_size[_DRAWN_JOBS:]]
    return time_s, drawn | ({_OTHERS: np.sum(rest, axis=0)} if rest else {})
