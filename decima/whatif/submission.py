"""The jobs of a driver that waits, submitted together: from threads, at most so many at once.

A job is submitted when all that it needs (`replay.dependencies`) has ended and fewer than the most
are under way; before its submission it takes the pause that was recorded before it. So a pause, be
it planning or work of the driver's program, is taken to be the job's own: threads do not wait for
each other's. Before the first job of a driver, whose pause no log shows, that is the median of the
others. Jobs that came by themselves are not submitted before they were.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.rl.statistics import Estimate, difference_percent, mean_of
from decima.whatif.closed_loop import clients_of, keep_a_timetable
from decima.whatif.load import recorded_slots, span_s, varying_slots
from decima.whatif.replay import Recording, ReplayReport, ReplayWorkload
from decima.whatif.replay.allocation import is_dynamic
from decima.whatif.replay.check import overlapping
from decima.whatif.replay.dependencies import Reason
from decima.whatif.replay.recording import FAIR, FIFO, ORDERS
from decima.whatif.replay.report import USELESS_PERCENT, can_be_trusted
from decima.whatif.replay.workload import Course
from decima.whatif.results import WORTH_PERCENT, Progress, WhatIf
from decima.whatif.settings import WhatIfSettings
from decima.whatif.spark_settings import Files, policy_files
from decima.whatif.text import figure, percent, seconds
from spark_sim import Allocation, Protocol, Slots, Streams
from spark_sim.tables import NONE
from traces.arrivals import Arrivals
from traces.errors import TraceError
from traces.files.names import counted
from traces.numbers import MS_PER_S, Bool, Float64, Int64

TOGETHER: Literal["together"] = "together"
Limit = int | Literal["together"]
"""jobs at once, or all"""
HEADINGS = ("submission, policy", "makespan", "change", "average JCT", "change")
DRIVER = "the driver's program (PySpark)"
_AS_RECORDED = "as recorded"
_SHORT = 2.0
"""times the median pause: up to there pauses are alike"""


class NotWaitingError(ValueError):
    """No job of the recording waited for another one."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Figures of D draws with J jobs."""

    span_s: Float64
    """(D,) from the first submission to the last end"""
    avg_s: Float64
    """(D,) average JCT"""


@dataclass(frozen=True, eq=False)
class Submission:
    """The jobs as recorded and submitted otherwise, under Spark's own policies."""

    study: WhatIf
    limit: Limit
    recorded: Outcome
    """under the baseline, with the driver that waits"""
    changed: Mapping[str, Outcome]
    """by policy, the baseline first"""
    rules: Rules
    check: ReplayReport

    @property
    def base(self) -> str:
        """The policy that the recorded submission is simulated under."""
        return next(iter(self.changed))

    @property
    def error_percent(self) -> float:
        """How far the simulated driver that waits is off the recorded time.

        0 where it is not simulated as it was: on other slots, or without its driver's times.
        """
        recording, settings = self.study.recording, self.study.settings
        is_as_recorded = (
            self.study.driver_times
            and recording.before is None
            and settings.allocation is None
            and settings.executors == recorded_slots(recording)
            and settings.slots_vary == (varying_slots(recording) is not None)
        )
        if not is_as_recorded:
            return 0.0
        return 100 * (float(self.recorded.span_s.mean()) / max(span_s(recording), 1e-3) - 1)

    @property
    def is_trusted(self) -> bool:
        """Return whether the simulator repeats jobs and the whole recording well enough."""
        return can_be_trusted(self.check) and abs(self.error_percent) <= USELESS_PERCENT

    @property
    def name(self) -> str:
        if self.limit == TOGETHER:
            return TOGETHER
        return f"at most {self.limit:,} at once"

    def span_change(self, policy: str) -> Estimate:
        """Percent of the time from the first submission to the last end, paired by draw."""
        return difference_percent(self.changed[policy].span_s, self.recorded.span_s)

    def jct_change(self, policy: str) -> Estimate:
        """Percent of the average JCT, paired by draw."""
        return difference_percent(self.changed[policy].avg_s, self.recorded.avg_s)

    def fair_change(self) -> Estimate | None:
        """Percent of the average JCT by FAIR against the baseline, jobs submitted as changed.

        None where it is not surely lower, or the whole takes longer.
        """
        fair, base = self.changed[FAIR], self.changed[self.base]
        jct = difference_percent(fair.avg_s, base.avg_s)
        span = difference_percent(fair.span_s, base.span_s)
        return jct if jct.upper < -WORTH_PERCENT and span.mean <= WORTH_PERCENT else None

    def headline(self) -> str:
        if not self.is_trusted:
            return (
                f"No answer on --submit: the simulated driver that waits is "
                f"{self.error_percent:+.0f} % off the recorded time, or its jobs are too far off "
                "(`decima replay`)."
            )
        base, outcome = self.base, self.changed[self.base]
        words = (
            f"Submitted {self.name}, under {base}: {figure(mean_of(outcome.span_s))} from the "
            "first submission to the last end (makespan) instead of "
            f"{figure(mean_of(self.recorded.span_s))} ({percent(self.span_change(base))}); "
            f"average JCT {seconds(float(outcome.avg_s.mean()))} instead of "
            f"{seconds(float(self.recorded.avg_s.mean()))} ({percent(self.jct_change(base))})"
        )
        if self.jct_change(base).mean >= WORTH_PERCENT:
            words += ", since jobs share the slots"
        if (fair := self.fair_change()) is not None:
            words += f". With a FAIR pool for each job instead: average JCT {percent(fair)}"
        return f"{words}."

    def kept_words(self) -> str:
        """Describe the dependencies that are kept, by reason."""
        needed = self.study.recording.dependencies
        if not needed:
            return "Kept: nothing, as the log shows no job that needs another."
        jobs = len({each.job for each in needed})
        counts = Counter(each.reason for each in needed)
        reasons = ", ".join(f"{reason.value} ({count:,})" for reason, count in counts.items())
        return (
            f"Kept: {jobs:,} of {len(self.rules.pause_ms):,} jobs wait for others. One {reasons}."
        )

    def assumed_words(self) -> str:
        pause_s = self.rules.typical_pause_ms / MS_PER_S
        words = (
            "Assumed: no other job needs what the driver collected from an earlier one, or wrote "
            "outside Spark, which no log shows; and each job comes from a thread of its own, after "
            f"the pause that it had before it ({seconds(pause_s)} in the median)."
        )
        if any(each.reason is Reason.MAY_READ for each in self.study.recording.dependencies):
            words += " Jobs that read or write what the log does not name wait for each other."
        return words

    def dependency_words(self) -> Iterator[str]:
        names = [job.name for job in self.study.recording.trace.jobs]
        for each in self.study.recording.dependencies:
            what = f" ({each.what})" if each.what else ""
            yield f"{names[each.job]} waits for {names[each.on]}: {each.reason.value}{what}"

    def advised(self) -> tuple[str, Files] | None:
        """The change and the lines that make it; None where it is not surely shorter."""
        change = self.span_change(self.base)
        is_sure = change.mean < 0 if change.ci95 is None else change.is_surely_below(0)
        if not self.is_trusted or not is_sure or change.mean > -WORTH_PERCENT:
            return None
        jobs = len(self.rules.pause_ms)
        threads = jobs if self.limit == TOGETHER else min(self.limit, jobs)
        lines = [
            "from concurrent.futures import ThreadPoolExecutor",
            f"with ThreadPoolExecutor({threads}) as threads:",
            "    results = list(threads.map(run, jobs))  # run: one job, up to its action",
        ]
        if self.study.recording.dependencies:
            lines.append("# A job that needs others first calls result() of their futures.")
        files: dict[str, str] = {DRIVER: "\n".join(lines)}
        if self.fair_change() is not None:
            files |= policy_files(self.study, FAIR)
        return self.headline(), files

    def rows(self) -> Iterator[tuple[str, ...]]:
        recorded = self.recorded
        yield (
            f"{_AS_RECORDED}, {self.base}",
            figure(mean_of(recorded.span_s)), "", figure(mean_of(recorded.avg_s)), "",
        )  # fmt: skip
        for policy, outcome in self.changed.items():
            yield (
                f"{self.name}, {policy}",
                figure(mean_of(outcome.span_s)),
                percent(self.span_change(policy)),
                figure(mean_of(outcome.avg_s)),
                percent(self.jct_change(policy)),
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "limit": self.limit,
            "is_trusted": self.is_trusted,
            "recorded": _figures(self.recorded),
            "policies": {
                policy: {
                    **_figures(outcome),
                    "span_difference_percent": self.span_change(policy).to_json(),
                    "jct_difference_percent": self.jct_change(policy).to_json(),
                }
                for policy, outcome in self.changed.items()
            },
            "dependencies": [
                {"job": each.job, "on": each.on, "reason": each.reason.value, "what": each.what}
                for each in self.study.recording.dependencies
            ],
            "assumed": self.assumed_words(),
        }


def _figures(outcome: Outcome) -> dict[str, list[float]]:
    return {"span_s": outcome.span_s.tolist(), "avg_jct_s": outcome.avg_s.tolist()}


@dataclass(frozen=True, eq=False)
class Rules:
    """When each of J jobs may be submitted; rows are in the order of the trace."""

    order: Int64
    """(J,) rows by recorded submission"""
    ready_ms: Float64
    """(J,) when the job's driver began, or the job came by itself"""
    pause_ms: Float64
    """(J,) from when all that it waits for is there to its submission"""
    is_driven: Bool
    """(J,) whether it is of a driver that waits; others came by themselves, without a pause"""
    leaders: tuple[tuple[int, ...], ...]
    """for each job those whose ends it needs"""

    @classmethod
    def of(cls, recording: Recording) -> Rules:
        """The rules of one application; NotWaitingError if its jobs waited for no other ones."""
        follows = waited_for(recording)
        if (follows == NONE).all():
            raise NotWaitingError(
                "no job came after the end of another as from a driver that waits, so they "
                "already are submitted together"
            )
        arrival_ms, end_ms = recording.arrival_ms, recording.end_ms
        order = np.argsort(arrival_ms, kind="stable").astype(np.int64)
        pause_ms = np.where(follows == NONE, 0.0, arrival_ms - end_ms[follows])
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        clients = order[clients_of(np.where(follows == NONE, NONE, place[follows])[order])[place]]
        ready_ms = arrival_ms[clients].copy()
        is_driven = np.zeros(len(order), np.bool_)
        for first in np.unique(clients).tolist():
            others = (clients == first) & (follows != NONE)
            if others.any():
                pause_ms[first] = np.median(pause_ms[others])
                ready_ms[clients == first] -= pause_ms[first]
                is_driven[clients == first] = True
        leaders: defaultdict[int, list[int]] = defaultdict(list)
        for each in recording.dependencies:
            leaders[each.job].append(each.on)
        every = tuple(tuple(leaders[row]) for row in range(len(order)))
        return cls(order, ready_ms, pause_ms, is_driven, every)

    @property
    def typical_pause_ms(self) -> float:
        """Median pause of the jobs of drivers that wait."""
        return float(np.median(self.pause_ms[self.is_driven]))

    def exchanged(self, rng: np.random.Generator) -> Rules:
        """Return the rules with the short pauses in another order."""
        pause_ms = self.pause_ms.copy()
        is_short = pause_ms <= _SHORT * self.typical_pause_ms
        short = np.flatnonzero(self.is_driven & is_short)
        pause_ms[short] = pause_ms[rng.permutation(short)]
        return replace(self, pause_ms=pause_ms)

    def scheduled(self, took_ms: Float64, most: int) -> tuple[Float64, Int64]:
        """(J,) when each job is submitted, and (J,) after whose end, NONE if at its own time.

        Of the jobs that may be submitted, those go first that were submitted first. Each runs for
        `took_ms` (J,); `most` are under way at once, from the pause before them to their end.
        """
        rank = np.empty(len(self.order), np.int64)
        rank[self.order] = np.arange(len(self.order))
        awaited = np.array([1 + len(leaders) for leaders in self.leaders])  # and its own time
        followers: defaultdict[int, list[int]] = defaultdict(list)
        for row, leaders in enumerate(self.leaders):
            for leader in leaders:
                followers[leader].append(row)
        submitted_ms = np.zeros(len(rank))
        trigger = np.full(len(rank), NONE)
        # Events: a job's own time (NONE, row), and a job's end (row, NONE).
        events = [(float(at_ms), NONE, row) for row, at_ms in enumerate(self.ready_ms)]
        heapq.heapify(events)
        open_jobs: list[tuple[int, int]] = []  # by rank
        under_way = 0
        while events:
            now_ms, ended, arrived = heapq.heappop(events)
            if ended != NONE:
                under_way -= 1
            for row in followers[ended] if ended != NONE else [arrived]:
                awaited[row] -= 1
                if awaited[row] == 0:
                    heapq.heappush(open_jobs, (int(rank[row]), row))
            while open_jobs and under_way < most:
                _, row = heapq.heappop(open_jobs)
                under_way += 1
                submitted_ms[row] = now_ms + self.pause_ms[row]
                trigger[row] = ended
                heapq.heappush(events, (float(submitted_ms[row] + took_ms[row]), row, NONE))
        return submitted_ms, trigger


def waited_for(recording: Recording) -> Int64:
    """(J,) the job after whose end each came, NONE where it came by itself.

    As the replay finds it; and of few jobs that never overlap, which may be chance, the one before.
    """
    followed = recording.followed
    if (followed != NONE).any() or overlapping(recording).any():
        return followed
    order = np.argsort(recording.arrival_ms, kind="stable")
    if keep_a_timetable(recording.arrival_ms[order], recording.end_ms[order]):
        return followed
    followed[order[1:]] = order[:-1]
    return followed


def hint(study: WhatIf) -> str | None:
    """Point to the question that a driver that waits raises; None where none does."""
    recording = study.recording
    waiting = int((waited_for(recording) != NONE).sum())
    is_session = study.settings.protocol == Protocol.SESSION.label
    if not is_session or len(recording.slots) > 1 or 2 * waiting < len(recording.trace.jobs):
        return None
    return (
        f"{counted(waiting, 'job')} came after the end of another, as from a driver that waits: "
        "--submit together shows what submitting them at once would give."
    )


class _Shared(NamedTuple):
    """Inputs that all runs share."""

    workload: SentOnce[ReplayWorkload]
    rules: Rules
    settings: WhatIfSettings
    slots: Slots | Allocation | None


class _Run(NamedTuple):
    """One simulation; `most` is None with the driver that waits."""

    policy: str
    most: int | None
    draw: int


def submission(
    study: WhatIf,
    check: ReplayReport,
    limit: Limit,
    *,
    pool: WorkerPool = HERE,
    progress: Progress | None = None,
) -> Submission:
    """Simulate the jobs as they were and as `limit` has them; NotWaitingError if none waited."""
    rules, settings = Rules.of(study.recording), study.settings
    workload = ReplayWorkload.of(
        study.recording,
        driver_times=study.driver_times,
        estimates=settings.estimates,
        seed=settings.seed,
    )
    shared = _Shared(SentOnce(workload), rules, settings, _slots(study))
    most = len(rules.order) if limit == TOGETHER else limit
    policies = policies_of(settings)
    runs = {
        run: run
        for draw in range(settings.draws)
        for run in (
            _Run(policies[0], None, draw),
            *(_Run(policy, most, draw) for policy in policies),
        )
    }
    figures: dict[_Run, tuple[float, float]] = {}
    for run, answer in pool.map(_play, shared, runs, label="submission"):
        figures[run] = answer
        if progress is not None:
            progress(f"--submit, {run.policy}", 1)

    def outcome(policy: str, most: int | None) -> Outcome:
        columns = [figures[_Run(policy, most, draw)] for draw in range(settings.draws)]
        span_s, avg_s = np.array(columns).T
        return Outcome(span_s, avg_s)

    changed = {policy: outcome(policy, most) for policy in policies}
    return Submission(study, limit, outcome(policies[0], None), changed, rules, check)


def policies_of(settings: WhatIfSettings) -> tuple[str, ...]:
    """Return the baseline if it is one of Spark's, else its FIFO, and Spark's FAIR."""
    base = settings.reference if settings.reference in ORDERS else FIFO
    return tuple(dict.fromkeys((base, FAIR)))


def _slots(study: WhatIf) -> Slots | Allocation | None:
    """Slots by the load, where they followed it, or as recorded; None: always as many."""
    settings, recording = study.settings, study.recording
    if settings.allocation is not None:
        return recording.allocation(0, settings.allocation)
    if not settings.slots_vary:
        return None
    if is_dynamic(recording.settings(0)):
        try:
            return recording.allocation(0)
        except TraceError:
            pass  # settings that the model refuses: executors as they came and went
    return varying_slots(recording)


def _play(shared: _Shared, run: _Run) -> tuple[float, float]:
    """Time from the first submission to the last end, and the average JCT, in seconds."""
    workload, slots = shared.workload.value, shared.slots
    slot_count = slots.slots if isinstance(slots, Allocation) else shared.settings.executors
    cluster = shared.settings.cluster(slot_count)
    key = Streams(shared.settings.seed, 0, run.draw).duration_key()

    def played(workload: ReplayWorkload, course: Course) -> tuple[float, Float64]:
        simulator = workload.played(cluster, run.policy, course, key)
        jct_s = workload.jct_of(course, simulator.state)
        return workload.makespan_s(simulator.state, jct_s), jct_s

    if run.most is None:
        makespan_s, jct_s = played(workload, workload.recorded(slots))
        return makespan_s, float(jct_s.mean())
    rules = shared.rules.exchanged(Streams(shared.settings.seed, run.draw).arrivals())
    workload = replace(workload, think_ms=rules.pause_ms)
    took_ms = np.array([job.work_ms / slot_count for job in workload.trace.jobs])
    previous: Int64 | None = None
    # Whose end lets a job go depends on how long jobs take, which depends on when they come. What
    # happens before the first wrong guess is right, so each round has at least one more job right.
    for _ in range(len(rules.order) + 1):
        submitted_ms, trigger = rules.scheduled(took_ms, run.most)
        if previous is not None and (trigger == previous).all():
            break
        previous = trigger
        # The jobs by submission, the first of which comes at 0.
        order = np.argsort(submitted_ms, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        follows = np.where(trigger == NONE, NONE, place[trigger])[order]
        arrivals = Arrivals(submitted_ms[order] - submitted_ms.min(), order.astype(np.int32))
        makespan_s, jct_s = played(workload, Course(arrivals, follows, slots))
        took_ms = np.empty(len(jct_s))
        took_ms[arrivals.job] = MS_PER_S * jct_s
    return makespan_s, float(jct_s.mean())
