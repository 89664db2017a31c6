"""What a what-if says, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator

from decima.closed_loop import MOSTLY
from decima.evaluation.statistics import Estimate, difference_percent
from decima.replay import ReplayReport
from decima.replay.spark_order import ORDERS
from decima.whatif.load import by_length, known_share, offered_load, waiting_share
from decima.whatif.report import percent, seconds, signed, slots
from decima.whatif.study import SizeResult, WhatIf
from spark_sim import Protocol

LITTLE_WAITING = 0.05
"""share of the average JCT; below it there is nothing to gain from scheduling"""
FEW_JOBS = 50
_P95_JOBS = 20
_TRUSTED_ERROR_PERCENT = 9.0
_TAIL_PRICE_PERCENT = 5.0
_WORTH_A_CHANGE = 0.02
_HURT = 1.1
# A job counts as slower from 10 % on: less is lost in the draws.


def findings(found: WhatIf) -> Iterator[str]:
    """What would change most, for which jobs, and what more or fewer executors would do."""
    waiting = _waiting(found.main, found.settings.reference)
    yield _waiting_words(found, waiting)
    best = best_policy(found)
    if waiting >= LITTLE_WAITING and best is None:
        yield (
            f"No other policy is better than {found.settings.reference} with certainty, with the "
            "recorded and with resampled arrivals."
        )
    if waiting >= LITTLE_WAITING and best is not None:
        yield _best_words(found, best)
        yield _who_words(found, best)
        yield _how_words(found, best)
    yield from _size_words(found, best)


def best_policy(found: WhatIf) -> str | None:
    """The policy with the lowest average JCT over recorded and resampled arrivals.

    None if it is the reference, or not better than that with certainty (95 %) in both. In a shared
    session a policy that Spark has itself is preferred to one that is hardly better.
    """
    reference = found.settings.reference
    others = [name for name in found.settings.policies if name != reference]
    sure = [name for name in others if all(_is_lower(row) for row in _differences(found, name))]
    averages = {
        name: sum(row.mean for row in _differences(found, name)) / 2 - _handicap(found, name)
        for name in sure
    }
    return min(averages, key=lambda name: averages[name], default=None)


def _handicap(found: WhatIf, policy: str) -> float:
    """Percent by which another policy must be better to be worth more than a setting."""
    is_setting = policy in ORDERS and found.settings.protocol == Protocol.SESSION.label
    return 100 * _WORTH_A_CHANGE if is_setting else 0.0


def caveats(found: WhatIf, check: ReplayReport) -> Iterator[str]:
    """Why the figures may mislead on this recording."""
    recording, settings = found.recording, found.settings
    jobs = len(recording.trace.jobs)
    fidelity = check.fidelity("all")
    if fidelity is not None and fidelity.above(_TRUSTED_ERROR_PERCENT):
        yield (
            f"The replay itself is {fidelity.median_error_percent:.0f} % off the recorded "
            f"durations (median), {fidelity.bias_percent:+.0f} % on average: differences of that "
            "size mean little. `decima replay` names the jobs."
        )
    if jobs < FEW_JOBS:
        tail = ", and the p95 is in effect the slowest job" if jobs <= _P95_JOBS else ""
        yield f"{jobs} jobs are few: one long job moves the averages{tail}. Record for longer."
    best = best_policy(found)
    if best is not None and best not in ORDERS and settings.estimates == "exact":
        yield (
            f"{best} is told here how long tasks take. On a live session it knows that of queries "
            "in its priors, of others only as they run. In this recording "
            f"{100 * known_share(recording):.0f} % of the jobs are further runs of a query before "
            "them; --estimates none shows what it does where nothing is known."
        )
    waiting = waiting_share(recording)
    if waiting > MOSTLY:
        yield (
            f"{100 * waiting:.0f} % of the jobs came right after another had ended, as from "
            "clients that wait for their jobs. Here they come at the recorded times all the same: "
            "with fewer slots they pile up, where the clients would wait, and a policy that lets "
            "jobs end sooner seems to gain, where the next ones would have come sooner."
        )
    if max(found.sizes) > max(recording.slots):
        yield (
            "On more slots than recorded, tasks take as long as recorded: a log shows neither what "
            "sharing memory, disk and network costs nor smaller tasks."
        )
    if settings.protocol == Protocol.EXECUTORS.label:
        yield (
            f"An executor takes {settings.moving_delay_s:g} s to start in another application and "
            f"{settings.warmup_delay_s:g} s longer for its first task there: assumptions, not "
            "measured in this log."
        )
    elif len(recording.slots) > 1:
        yield (
            f"{len(recording.slots)} applications are treated as one session that shares all slots."
        )


def _waiting(size: SizeResult, policy: str) -> float:
    """Share of the average JCT that is due to other jobs."""
    return 1.0 - float(size.alone_s.mean()) / float(size.policies[policy].avg_s.mean())


def _waiting_words(found: WhatIf, waiting: float) -> str:
    reference = found.settings.reference
    jct_s = float(found.main.policies[reference].avg_s.mean())
    alone_s = float(found.main.alone_s.mean())
    words = (
        f"Under {reference} on {slots(found.main.executors)} a job takes {seconds(jct_s)} on "
        f"average; without other jobs it would take {seconds(alone_s)}."
    )
    if waiting < LITTLE_WAITING:
        return (
            f"{words} Jobs hardly wait for each other: whatever the policy, there is next to "
            f"nothing to gain (at most {max(0.0, 100 * waiting):.0f} %)."
        )
    return f"{words} Waiting for others is {100 * waiting:.0f} % of it: no policy can save more."


def _differences(found: WhatIf, policy: str) -> tuple[Estimate, Estimate]:
    """Average JCT against the reference, with recorded and with resampled arrivals."""
    result = found.main.policies[policy]
    reference = found.main.policies[found.settings.reference]
    return (
        difference_percent(result.avg_s, reference.avg_s),
        difference_percent(result.resampled_avg_s, reference.resampled_avg_s),
    )


def _is_lower(estimate: Estimate) -> bool:
    return (estimate.mean if estimate.ci95 is None else estimate.ci95[1]) < 0


def _best_words(found: WhatIf, best: str) -> str:
    recorded, resampled = _differences(found, best)
    tail = difference_percent(
        found.main.policies[best].p95_s, found.main.policies[found.settings.reference].p95_s
    )
    words = (
        f"What would change most: {best} instead of {found.settings.reference}. Average JCT "
        f"{percent(recorded)} with the recorded arrivals, {percent(resampled)} with resampled "
        f"ones; p95 {percent(tail)} with the recorded ones"
    )
    return f"{words}: the slowest jobs pay." if tail.mean > _TAIL_PRICE_PERCENT else f"{words}."


def _who_words(found: WhatIf, best: str) -> str:
    """Who wins, who loses."""
    before = found.main.policies[found.settings.reference].recorded_jct_s.mean(axis=0)
    after = found.main.policies[best].recorded_jct_s.mean(axis=0)
    changes = [
        f"{label} jobs {signed(after[rows].mean() / before[rows].mean() - 1)}"
        for label, rows in by_length(found.main.alone_s).items()
    ]
    slower = int((after > _HURT * before).sum())
    faster = int((before > _HURT * after).sum())
    return (
        f"For whom: {', '.join(changes)}. {faster:,} of {len(before):,} jobs end clearly earlier, "
        f"{slower:,} clearly later (by more than 10 %)."
    )


def _how_words(found: WhatIf, best: str) -> str:
    if found.settings.protocol != Protocol.SESSION.label:
        return f"How: {best} is no setting of Spark; it needs a scheduler that enforces it."
    if best == "fifo":
        return "How: fifo is Spark's default; unset spark.scheduler.mode."
    if best == "spark_fair":
        return (
            "How: set spark.scheduler.mode=FAIR and give each job a pool of its own "
            "(spark.scheduler.pool). Without pools every stage gets an equal share instead of "
            "every job; before Spark 3.3.2 all is FIFO then."
        )
    return (
        f"How: in the driver, decima.spark.attach({attach_arguments(found, best)}), at first with "
        'mode="shadow", a decision_log, and as priors the trace that `decima traces import spark` '
        "makes of these logs (docs/spark.md)."
    )


def attach_arguments(found: WhatIf, policy: str) -> str:
    """How `decima.spark.attach` is called for a policy with the parameters that were fitted."""
    arguments = ["spark", f'policy="{policy}"']
    parameters = found.main.tuned.get(policy)
    if parameters:
        values = ", ".join(f'"{label}": {value:g}' for label, value in parameters.items())
        arguments.append(f"parameters={{{values}}}")
    return ", ".join(arguments)


def _size_words(found: WhatIf, best: str | None) -> Iterator[str]:
    """What other numbers of executors do, and what a policy is worth in executors."""
    reference = found.settings.reference
    here_s = float(found.main.policies[reference].avg_s.mean())
    parts = []
    for executors, size in found.sizes.items():
        if executors != found.main.executors:
            mean_s = float(size.policies[reference].avg_s.mean())
            parts.append(f"{seconds(mean_s)} on {executors:,} ({signed(mean_s / here_s - 1)})")
    if parts:
        yield (
            f"Slots: under {reference} the average JCT is {seconds(here_s)} on "
            f"{found.main.executors:,}, {', '.join(parts)}."
        )
    half = found.sizes.get(found.main.executors // 2)
    if half is not None and offered_load(found.recording, half.executors) > 1:
        yield (
            f"{slots(half.executors)} could not keep up with the recorded arrivals: there the "
            "JCT grows with the length of the recording."
        )
    best_ones = ", ".join(_best_of_size(size, reference) for size in found.sizes.values())
    yield f"Lowest average with the recorded arrivals: {best_ones}."
    double = found.sizes.get(2 * found.main.executors)
    if best is not None and double is not None:
        saved_s = here_s - float(found.main.policies[best].avg_s.mean())
        bought_s = here_s - float(double.policies[reference].avg_s.mean())
        if bought_s > 0 and saved_s > 0:
            yield (
                f"{best} on the same slots gives {100 * saved_s / bought_s:.0f} % of what twice "
                f"the slots would give under {reference}."
            )


def _best_of_size(size: SizeResult, reference: str) -> str:
    """Which policy has the lowest average JCT, if it is worth a change."""
    averages = {name: float(result.avg_s.mean()) for name, result in size.policies.items()}
    best = min(averages, key=lambda name: averages[name])
    change = averages[best] / averages[reference] - 1
    if change > -_WORTH_A_CHANGE:
        return f"on {size.executors:,} no policy matters"
    return f"on {size.executors:,} {best} ({signed(change)})"
