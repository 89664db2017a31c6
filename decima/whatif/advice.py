"""Words of a what-if: what was recorded, the verdict, and the reasons to doubt it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from decima.rl.statistics import difference_percent
from decima.whatif import load
from decima.whatif.applications.workload import cluster_slots, slots_each
from decima.whatif.bounds import bounds_words
from decima.whatif.closed_loop import MOSTLY
from decima.whatif.replay import ReplayReport
from decima.whatif.replay.check import Fidelity, relative_error
from decima.whatif.replay.recording import FIFO, ORDERS, POOLS
from decima.whatif.replay.report import USELESS_PERCENT, can_be_trusted, conditions_words
from decima.whatif.report import groups
from decima.whatif.results import ApplicationsWhatIf, Result, Study, WhatIf
from decima.whatif.settings import DYNAMIC, OWN_WAYS, STATIC
from decima.whatif.spark_settings import (
    Files,
    allocation_files,
    bounds_files,
    policy_files,
    pool_files,
)
from decima.whatif.text import percent, seconds, share, signed
from spark_sim import Protocol
from spark_sim.tables import NONE
from traces.files.names import counted
from traces.numbers import MS_PER_S
from traces.spark_log.assemble import UNFINISHED
from traces.spark_log.names import shared_words

LITTLE_WAITING_PERCENT = 5.0
"""of the average JCT; where it is less for certain, there is nothing to gain from scheduling"""
TAIL_PRICE_PERCENT = 5.0
"""a larger increase of the p95 is named"""
FEW_JOBS = 50
_P95_JOBS = 20
_PILED_UP = 2.0
_CLEAR = 1.1
# A job counts as slower or faster from 10 % on: less is lost in the draws.
_MOST_NAMED = 4


def facts(study: Study) -> list[str]:
    recording = study.recording
    jobs = recording.trace.jobs
    tasks, stages = sum(job.num_tasks for job in jobs), sum(len(job.stages) for job in jobs)
    if isinstance(study, ApplicationsWhatIf):
        workload = study.workload
        slots, recorded = workload.executors * workload.slots_each, cluster_slots(recording)
        size = (
            "" if workload.slots_each == 1 else f" of {counted(workload.slots_each, 'slot')} each"
        )
        where = f"{counted(workload.executors, 'executor')}{size}"
        at_once = f", up to {workload.at_once:,} at once"
        conditions = []
        if study.is_delay_measured:
            conditions.append(
                f"An executor takes {seconds(workload.delay_ms / MS_PER_S)} to come, as these logs "
                "show: from its request, an application's start, or the end of the one whose place "
                "it took."
            )
    else:
        assert isinstance(study, WhatIf)  # noqa: S101 - the other kind
        before = recording.before or recording
        slots, at_once, recorded = study.settings.executors, "", load.recorded_slots(before)
        where = counted(slots, "slot")
        conditions = list(conditions_words(before))
    span_s = load.span_s(recording)
    span = f"{span_s:,.1f} s" if span_s < 120 else f"{span_s / 60:,.1f} min"
    if span_s >= 2 * 3600:
        span = f"{span_s / 3600:,.1f} h"
    return [
        f"{counted(len(jobs), 'job')} ({counted(stages, 'stage')}, {counted(tasks, 'task')}) of "
        f"{counted(len(recording.slots), 'application')}{at_once}, recorded over {span} on "
        f"{counted(recorded, 'slot')}; their tasks keep {where} busy "
        f"{100 * load.offered_load(recording, slots):.0f} % of that time. As recorded, a job took "
        f"{seconds(load.recorded_avg_s(recording))} on average.",
        *conditions,
        *recording.summary.left_out(),
    ]


class Advised(NamedTuple):
    """A change that is recommended."""

    words: str
    files: Files


def advised(study: Study, check: ReplayReport) -> Iterator[Advised]:
    """Yield the changes that are recommended, with the lines of Spark's settings that make them."""
    if not can_be_trusted(check):
        return
    if (best := _recommended(study)) is not None:
        yield Advised(headline(study, check), policy_files(study, best))
    if isinstance(study, WhatIf):
        if study.bounded is not None and study.is_worth_it(study.bounded):
            yield Advised(f"Bounds: {bounded_lines(study)[0]}", bounds_files(study))
        if not _is_little(study) and (pool := study.best_pool_change()) is not None:
            words = f"Pools: with {pool[0].words()} in fairscheduler.xml, {_both(study, pool[1])}."
            yield Advised(words, pool_files(study, pool[0]))
        if is_allocation_trusted(study):
            for label, result in (
                ("faster", study.fastest_allocation()),
                ("cheaper", study.cheapest_allocation()),
            ):
                if result is not None:
                    (change, changed), base = result, study.allocations[0][1]
                    held = percent(difference_percent(changed.held_s, base.held_s))
                    effect = f"{change.setting}, {_both(study, changed, base)}"
                    words = f"Allocation, {label}: {effect}, executors held for {held} time."
                    yield Advised(words, allocation_files(study, change))


def headline(study: Study, check: ReplayReport) -> str:
    if not can_be_trusted(check):
        return (
            f"No policy is recommended: the simulator does not repeat this recording"
            f"{_error(check.fidelity('all'))}, so its results for waiting, other policies and more "
            "slots may be as wrong. `decima replay` names the jobs."
        )
    waiting, reference = study.waiting(), study.settings.reference
    whose = _whose(study)
    if _is_little(study):
        return (
            f"Next to nothing to gain: waiting for other {whose} is at most {waiting.upper:.0f} % "
            f"of the average JCT under {reference}."
        )
    if (best := _recommended(study)) is not None:
        result = study.policies[best]
        tail = difference_percent(result.p95_s, study.reference.p95_s)
        pays = f"; the slowest jobs pay, p95 {percent(tail)}"
        return (
            f"{best} instead of {reference}: {_both(study, result)}"
            f"{pays if tail.mean > TAIL_PRICE_PERCENT else ''}."
        )
    if len(study.policies) > 1:
        return f"No other policy is better than {reference} with certainty."
    return _limit_words(study)


def findings(study: Study, check: ReplayReport) -> Iterator[str]:
    """Yield the verdict, then who gains, and how to get it; `advised` has changes of settings."""
    first = headline(study, check)
    if not can_be_trusted(check):
        yield first
        return
    best = _recommended(study)
    if _is_little(study):
        if isinstance(study, WhatIf) and study.all_slots is not None:
            change = difference_percent(study.all_slots.avg_s, study.reference.avg_s)
            if change.mean <= -LITTLE_WAITING_PERCENT:
                first += (
                    " But jobs wait for executors: if none ever went, the average JCT would change "
                    f"by {percent(change)}."
                )
    elif len(study.policies) > 1:
        first += f" {_limit_words(study)}"
    yield first
    if best is not None:
        yield _who_words(study, best)
        yield how_words(study, best)
    if isinstance(study, WhatIf):
        yield from bounded_lines(study)
        yield from _allocation_words(study)


def bounded_lines(study: WhatIf) -> list[str]:
    """Describe what the bounds of the settings do to average and p95, and to whom; () without."""
    settings, result, base = study.settings, study.bounded, study.reference
    if result is None:
        return []
    words = bounds_words(settings.max_slots, settings.max_jobs)
    p95 = percent(difference_percent(result.p95_s, base.p95_s))
    lines = [f"{settings.reference} with {words}: {_both(study, result)}, p95 {p95}."]
    pools = np.array([record.pool or "" for record in study.recording.driver])
    capped = {f"pool {name}": np.flatnonzero(pools == name) for name in settings.max_slots or {}}
    parts = capped | groups(study)
    if capped:
        others = np.flatnonzero(~np.isin(pools, list(settings.max_slots or {})))
        parts = capped | ({"others": others} if len(others) else {})
    changed = []
    for label, rows in parts.items():
        before_s, after_s = (each.jct_s[:, rows].mean(axis=1) for each in (base, result))
        change = percent(difference_percent(after_s, before_s))
        seconds_each = f"{seconds(float(before_s.mean()))} -> {seconds(float(after_s.mean()))}"
        changed.append(f"{label} ({counted(len(rows), 'job')}) {seconds_each}, {change}")
    before, after = base.by_job_s, result.by_job_s
    faster, slower = (before > _CLEAR * after).sum(), (after > _CLEAR * before).sum()
    lines.append(
        f"For whom, average JCT: {'; '.join(changed)}. {faster:,} end clearly earlier, {slower:,} "
        "clearly later (by more than 10 %)."
    )
    return lines


def _is_little(study: Study) -> bool:
    """Return whether jobs wait for others so little that no policy can matter."""
    return study.waiting().upper < LITTLE_WAITING_PERCENT


def _recommended(study: Study) -> str | None:
    return None if _is_little(study) else study.best()


def _whose(study: Study) -> str:
    return "applications" if isinstance(study, ApplicationsWhatIf) else "jobs"


def _limit_words(study: Study) -> str:
    return (
        f"Waiting for other {_whose(study)} is {share(study.waiting())} of the average JCT under "
        f"{study.settings.reference}: no policy can save more."
    )


def _error(fidelity: Fidelity | None) -> str:
    if fidelity is None:
        return ""
    median, bias = fidelity.median_error_percent, fidelity.bias_percent
    return f" ({median:.0f} % off in the median, {bias:+.0f} % on average)"


def _both(study: Study, result: Result, base: Result | None = None) -> str:
    drawn, second = map(percent, study.differences(result, base))
    if isinstance(study, ApplicationsWhatIf):
        return f"average JCT {drawn} over draws of durations, {second} over stretches of the jobs"
    return f"average JCT {drawn} (resampled: {second})"


def _who_words(study: Study, best: str) -> str:
    before = study.reference.by_job_s
    after = study.policies[best].by_job_s
    changes = {
        label: after[rows].mean() / before[rows].mean() - 1 for label, rows in groups(study).items()
    }
    if isinstance(study, ApplicationsWhatIf):
        by_change = sorted(changes, key=lambda name: changes[name])
        gain = [name for name in by_change if changes[name] < -1 / 100]
        lose = [name for name in reversed(by_change) if changes[name] > 1 / 100]
        parts = []
        for names, verb in ((gain, "faster"), (lose, "slower")):
            named = [f"{name} {signed(changes[name])}" for name in names[:_MOST_NAMED]]
            named += [f"{len(names) - _MOST_NAMED:,} more"] if len(names) > _MOST_NAMED else []
            parts.append(f"{len(names):,} {verb}" + (f" ({', '.join(named)})" if named else ""))
        return f"For whom: of {counted(len(changes), 'application')}, {', '.join(parts)}."
    lengths = ", ".join(f"{label} jobs {signed(change)}" for label, change in changes.items())
    faster, slower = (before > _CLEAR * after).sum(), (after > _CLEAR * before).sum()
    return (
        f"For whom: {lengths}. Of {counted(len(before), 'job')}, {faster:,} end clearly earlier, "
        f"{slower:,} clearly later (by more than 10 %)."
    )


def how_words(study: Study, best: str) -> str:
    if isinstance(study, ApplicationsWhatIf):
        workload = study.workload
        cores = max(1, workload.executors // workload.at_once) * workload.slots_each
        ways = {
            STATIC: f"set spark.cores.max={cores} (for tasks of one core) in each application",
            FIFO: "leave spark.cores.max and spark.dynamicAllocation.enabled unset",
            DYNAMIC: "set spark.dynamicAllocation.enabled=true, with a shuffle service or "
            "spark.dynamicAllocation.shuffleTracking.enabled=true",
        }
        coordinate = (
            f"decima coordinate --slots {workload.executors} --policy {best}, and the plugin in "
            "each application (docs/applications.md)"
        )
        return f"How: {ways.get(best, coordinate)}."
    assert isinstance(study, WhatIf)  # noqa: S101 - the other kind
    if study.settings.protocol != Protocol.SESSION.label:
        return (
            f"How: between applications no setting of Spark gives {best}; it needs a cluster "
            "manager that enforces it."
        )
    if load.are_pooled(study.recording):
        return (
            f"How: these jobs came from {len(study.recording.slots)} applications, and a scheduler "
            "orders the jobs of one. Run them in one session (as by Spark Connect or a Thrift "
            "server), or ask for each log by itself."
        )
    settings = {
        FIFO: "fifo is Spark's default; unset spark.scheduler.mode.",
        POOLS: "set spark.scheduler.mode=FAIR and keep the pools that the jobs name.",
        "spark_fair": "set spark.scheduler.mode=FAIR and give each job a pool of its own "
        "(spark.scheduler.pool). Without pools every stage gets an equal share instead of every "
        "job; before Spark 3.3.2 all is FIFO then.",
    }
    arguments = ["spark", f'policy="{best}"']
    if parameters := study.main.tuned.get(best):
        values = ", ".join(f'"{label}": {value:g}' for label, value in parameters.items())
        arguments.append(f"parameters={{{values}}}")
    attach = (
        f"in the driver, decima.spark.attach({', '.join(arguments)}), at first with "
        'mode="shadow", a decision_log, and as priors the trace that `decima traces import spark` '
        "makes of these logs (docs/spark.md)."
    )
    return f"How: {settings.get(best, attach)}"


def allocation_fidelity(study: WhatIf) -> Fidelity | None:
    """Error of the model of dynamic allocation with the log's settings; None without it."""
    if not study.allocations:
        return None
    simulated_s = study.allocations[0][1].by_job_s
    return Fidelity.of(relative_error(simulated_s, study.recording.recorded_ms / MS_PER_S))


def is_allocation_trusted(study: WhatIf) -> bool:
    """Return whether the model of dynamic allocation repeats the recording; False without it."""
    fidelity = allocation_fidelity(study)
    return fidelity is not None and not fidelity.above(USELESS_PERCENT)


def _allocation_words(study: WhatIf) -> Iterator[str]:
    """Describe the model of dynamic allocation, and where it has no advice."""
    fidelity = allocation_fidelity(study)
    if fidelity is None:
        return
    if not is_allocation_trusted(study):
        yield (
            "Allocation: no advice on its settings, since the model of dynamic allocation does "
            f"not repeat this recording{_error(fidelity)}."
        )
        return
    start_s = study.allocations[0][0].allocation.start_ms / MS_PER_S
    none_faster = " None of the changes that were tried ends jobs sooner for certain."
    yield (
        f"Allocation, simulated by Spark's rules{_error(fidelity)}; an executor comes "
        f"{seconds(start_s)} after its request."
        f"{none_faster if study.fastest_allocation() is None else ''}"
    )


def caveats(study: Study, check: ReplayReport) -> Iterator[str]:
    recording, summary = study.recording, study.recording.summary
    if summary.parts_missing > 0:
        verb = "is" if summary.parts_missing == 1 else "are"
        yield (
            f"{counted(summary.parts_missing, 'part')} of the recorded logs {verb} missing: jobs "
            "that began or ended there are in no figure, and the slots that they held seem free."
        )
    if summary.slots_inferred > 0:
        whose = counted(summary.slots_inferred, "application")
        yield (
            f"The slots of {whose} had to be inferred from tasks that overlapped, since the log "
            "lacks the cores of an executor: they may be too many, as ends are stamped late, or "
            "too few. If you know them, give --executors."
        )
    if study.has_repeats:
        yield (
            f"The {study.settings.draws} draws of task durations are identical, since all tasks of "
            "a stage took equally long: they count as one run, without an interval."
        )
    jobs, missing = len(recording.trace.jobs), summary.unused_jobs[UNFINISHED]
    if missing > 0:
        yield (
            f"{counted(missing, 'job')} had not ended when a log did and had to be left out. If "
            "it was cut while jobs queued, those that waited longest are missing from all figures."
        )
    if jobs < FEW_JOBS:
        tail = ", and the p95 is in effect the slowest job" if jobs <= _P95_JOBS else ""
        verb = "is" if jobs == 1 else "are"
        yield (
            f"{counted(jobs, 'job')} {verb} few: one long job moves the averages{tail}. "
            "Record for longer."
        )
    if isinstance(study, ApplicationsWhatIf):
        yield from _caveats_of_applications(study)
    elif isinstance(study, WhatIf):
        yield from _caveats_of_session(study, check)


def _caveats_of_session(study: WhatIf, check: ReplayReport) -> Iterator[str]:
    recording, settings = study.recording, study.settings
    if settings.protocol == Protocol.EXECUTORS.label:
        yield (
            "The replay was checked in shared sessions, as recorded, but not for executors that "
            f"move between applications. One takes {settings.moving_delay_s:g} s "
            f"to start in another application and {settings.warmup_delay_s:g} s longer for "
            "its first task there: assumptions, not measured in this log."
        )
    if settings.slots_vary:
        yield (
            "Slots come and go as recorded, whatever the policy and the load: an allocation that "
            "follows the load would act otherwise. --executors N takes a fixed number, "
            "--allocation log simulates dynamic allocation."
        )
    elif load.varying_slots(recording) is not None:
        yield (
            "The recorded slots came and went; here all of them are there from the first job to "
            "the last."
        )
    waiting = load.waiting_share(recording)
    if waiting > MOSTLY and (recording.followed == NONE).mean() > 1 - MOSTLY:
        yield (
            f"{100 * waiting:.0f} % of the jobs came right after another had ended, as from "
            "clients that wait for their jobs. Those that are not replayed so come at the recorded "
            "times: with fewer slots they pile up, where the clients would wait."
        )
    best = study.best() if can_be_trusted(check) else None
    if best is not None and best not in ORDERS and settings.estimates == "exact":
        yield (
            f"{best} knows here how long tasks take. On a live session it knows that of queries "
            "in its priors, of others only as they run. In this recording "
            f"{100 * load.known_share(recording):.0f} % of the jobs are further runs of a "
            "query before them; --estimates none shows what it does where nothing is known."
        )
        if (shared := shared_words(recording.trace)) is not None:
            yield shared
    half, neediest = settings.executors // 2, recording.neediest()
    if neediest is not None and 1 <= half < neediest.slots:
        yield f"{counted(half, 'slot')} are impossible: {neediest.words()}."
    if half in study.sizes and load.offered_load(recording, half) > 1:
        both_s = (study.shared_avg_s(n, settings.reference) for n in (half, settings.executors))
        half_s, here_s = (float(avg_s.mean()) for avg_s in both_s)
        if half_s > _PILED_UP * here_s:
            yield (
                f"{counted(half, 'slot')} could not keep up with the recorded arrivals: there the "
                "JCT grows with the length of the recording."
            )
    if max(study.sizes) > load.recorded_slots(recording):
        yield (
            "On more slots than recorded, tasks take as long as recorded: a log shows neither what "
            "sharing memory, disk and network costs nor smaller tasks."
        )
    if settings.protocol == Protocol.SESSION.label and len(recording.slots) > 1:
        yield (
            f"{len(recording.slots)} applications are treated as one session that shares all "
            + ("slots, which they did not." if load.are_pooled(recording) else "slots.")
        )


def _caveats_of_applications(study: ApplicationsWhatIf) -> Iterator[str]:
    recording, workload, settings = study.recording, study.workload, study.settings
    if not study.is_delay_measured and settings.moving_delay_s is None:
        yield (
            f"An executor takes {seconds(workload.delay_ms / MS_PER_S)} to come: an assumption, as "
            "these logs do not show it. --moving-delay takes another."
        )
    if len({behaviour.slots_each for behaviour in recording.behaviours}) > 1:
        yield (
            "The applications had executors of several sizes: here each has "
            f"{counted(slots_each(recording), 'slot')}, and on that depends who gets how many."
        )
    if DYNAMIC in settings.policies:
        yield (
            "dynamic follows each application's load by Spark's rules. Executors that stay since "
            "they hold shuffle data, and clusters that share otherwise than standalone, are not "
            "simulated."
        )
    coordinated = [name for name in settings.policies if name not in OWN_WAYS]
    if coordinated and settings.estimates == "exact":
        yield (
            f"{', '.join(coordinated)}: the coordinator knows here how long tasks take. Live it "
            "does for queries that it has priors of; --estimates none shows it without."
        )
    yield (
        "Inside an application, tasks go in Spark's own order everywhere. Applications start as "
        "recorded, and wait for no other application's end."
    )
    if workload.executors * workload.slots_each > max(recording.slots):
        yield "An application that gets more slots than it had runs tasks as quickly as recorded."
