"""Sentences of a what-if."""

from __future__ import annotations

from collections.abc import Iterator

from decima.rl.statistics import Estimate, difference_percent
from decima.whatif.allocation_advice import allocation_words
from decima.whatif.load import are_pooled, by_length, offered_load
from decima.whatif.pool_changes import PoolResult
from decima.whatif.replay import ReplayReport
from decima.whatif.replay.recording import ORDERS, POOLS
from decima.whatif.replay.report import USELESS_PERCENT
from decima.whatif.report import percent, seconds, share, signed
from decima.whatif.study import SizeResult, WhatIf
from spark_sim import Protocol
from traces.files.names import counted
from traces.numbers import Float64

LITTLE_WAITING_PERCENT = 5.0
"""of the average JCT; where it is less for certain, there is nothing to gain from scheduling"""
TAIL_PRICE_PERCENT = 5.0
"""a larger increase of the p95 is named"""
WORTH_A_CHANGE = 0.02
"""relative change that is worth more than a setting"""
_PILED_UP = 2.0
_HURT = 1.1
# A job counts as slower from 10 % on: less is lost in the draws.


def findings(found: WhatIf, check: ReplayReport) -> Iterator[str]:
    """Describe the largest change, who gains, and other numbers of executors, if the replay is
    right.
    """
    if not can_be_trusted(check):
        yield distrust_words(check)
        return
    reference = found.settings.reference
    waiting = _waiting(found.main, reference)
    yield _waiting_words(found, waiting)
    yield from _all_slots_words(found)
    best = best_policy(found)
    if waiting.upper >= LITTLE_WAITING_PERCENT and len(found.settings.policies) > 1:
        if best is None:
            yield (
                f"No other policy is better than {reference} with certainty, with the recorded and "
                "with resampled arrivals."
            )
        else:
            yield _best_words(found, best)
            yield sure_words(check)
            yield from _setting_words(found, best)
            yield _who_words(found, best)
            yield _how_words(found, best)
        yield from _pool_words(found)
    yield from allocation_words(found)
    yield from _size_words(found, best)


def can_be_trusted(check: ReplayReport) -> bool:
    """Return whether the simulator repeats the recording well enough for advice."""
    fidelity = check.fidelity("all")
    return fidelity is not None and not fidelity.above(USELESS_PERCENT)


def distrust_words(check: ReplayReport) -> str:
    """Describe how far the simulator is from the recording."""
    fidelity = check.fidelity("all")
    off = ""
    if fidelity is not None:
        median, bias = fidelity.median_error_percent, fidelity.bias_percent
        off = f" ({median:.0f} % off in the median, {bias:+.0f} % on average)"
    return (
        f"No policy is recommended: the simulator does not repeat this recording{off}, so its "
        "results for waiting, other policies and more slots may be as wrong. `decima replay` names "
        "the jobs."
    )


def sure_words(check: ReplayReport) -> str:
    """Describe how far the recommendation can be wrong."""
    fidelity = check.fidelity("all")
    words = "How sure: both intervals exclude 0"
    if fidelity is None:
        return f"{words}."
    return (
        f"{words}, and the simulator is {fidelity.median_error_percent:.0f} % off the recorded "
        f"times (median), {fidelity.bias_percent:+.0f} % on average."
    )


def best_policy(found: WhatIf) -> str | None:
    """The policy with the lowest average JCT over recorded and resampled arrivals.

    None if that is the reference, or not better with certainty (95 %) in both. In a shared session
    a policy that Spark has itself is preferred to one that is hardly better.
    """
    reference = found.settings.reference
    others = [name for name in found.settings.policies if name != reference]
    sure = [name for name in others if _is_surely_lower(found, name)]
    averages = {
        name: sum(row.mean for row in _differences(found, name)) / 2 - _handicap(found, name)
        for name in sure
    }
    return min(averages, key=lambda name: averages[name], default=None)


def _handicap(found: WhatIf, policy: str) -> float:
    """Percent by which another policy must be better to be worth more than a setting."""
    is_setting = policy in ORDERS and found.settings.protocol == Protocol.SESSION.label
    return 100 * WORTH_A_CHANGE if is_setting else 0.0


def _waiting(size: SizeResult, policy: str) -> Estimate:
    """Percent of the average JCT that is due to other jobs, paired by draw."""
    avg_s = size.policies[policy].avg_s
    return part_of(avg_s - size.alone_avg_s, avg_s).within(0.0, 100.0)


def _waiting_words(found: WhatIf, waiting: Estimate) -> str:
    reference = found.settings.reference
    jct_s = float(found.main.policies[reference].avg_s.mean())
    alone_s = float(found.main.alone_s.mean())
    little = waiting.upper < LITTLE_WAITING_PERCENT
    words = (
        f"Do jobs wait for each other? {'Hardly' if little else 'Yes'}. Under {reference} on "
        f"{counted(found.main.executors, 'slot')} a job takes {seconds(jct_s)} on average; "
        f"without other jobs it would take {seconds(alone_s)}."
    )
    if little:
        return (
            f"{words} Another policy has next to nothing to gain: at most "
            f"{max(0.0, waiting.upper):.0f} %."
        )
    return f"{words} Waiting for others is {share(waiting)} of it: no policy can save more."


def _all_slots_words(found: WhatIf) -> Iterator[str]:
    """Describe what executors that come late or go cost."""
    if found.all_slots_avg_s is None:
        return
    change = difference_percent(
        found.all_slots_avg_s, found.main.policies[found.settings.reference].avg_s
    )
    is_much = -change.mean >= LITTLE_WAITING_PERCENT
    yield (
        f"Do jobs wait for executors? {'Yes' if is_much else 'Hardly'}. With "
        f"{counted(found.main.executors, 'slot')} from the first job to the last, a job would take "
        f"{seconds(float(found.all_slots_avg_s.mean()))} ({percent(change)})."
    )


def _differences(found: WhatIf, policy: str) -> tuple[Estimate, Estimate]:
    """Average JCT against the reference, with recorded and with resampled arrivals."""
    result = found.main.policies[policy]
    return _to_reference(found, result.avg_s, result.resampled_avg_s)


def _to_reference(
    found: WhatIf, recorded_avg_s: Float64, resampled_avg_s: Float64
) -> tuple[Estimate, Estimate]:
    reference = found.main.policies[found.settings.reference]
    return (
        difference_percent(recorded_avg_s, reference.avg_s),
        difference_percent(resampled_avg_s, reference.resampled_avg_s),
    )


def _is_surely_lower(found: WhatIf, policy: str) -> bool:
    """Return whether a policy is better with recorded and with resampled arrivals."""
    return found.are_surely_lower(*_differences(found, policy))


def _setting_words(found: WhatIf, best: str) -> Iterator[str]:
    """Describe the effect of a Spark setting alone, where something else is better."""
    if found.settings.protocol != Protocol.SESSION.label or best in ORDERS:
        return
    for name in ORDERS:
        own = name in found.settings.policies and name != found.settings.reference
        if own and _is_surely_lower(found, name):
            recorded, resampled = _differences(found, name)
            yield (
                f"{name}, which is a setting of Spark, gives {percent(recorded)} and "
                f"{percent(resampled)} by itself."
            )


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
    return f"{words}: the slowest jobs pay." if tail.mean > TAIL_PRICE_PERCENT else f"{words}."


def _pool_words(found: WhatIf) -> Iterator[str]:
    """Describe the best change of one pool's settings."""
    if found.pools is None:
        return
    recorded, resampled = pool_differences(found, found.pools)
    if not is_pool_change_sure(found):
        yield (
            "Pools: no tried weight, minShare or mode of one pool gives a lower average with "
            "certainty."
        )
        return
    yield (
        f"Pools: with {found.pools.change.words()} in fairscheduler.xml, and no other change, "
        f"average JCT {percent(recorded)} with the recorded arrivals, {percent(resampled)} with "
        "resampled ones."
    )


def pool_differences(found: WhatIf, pools: PoolResult) -> tuple[Estimate, Estimate]:
    """Average JCT after the change, with recorded and with resampled arrivals."""
    return _to_reference(found, pools.recorded_avg_s, pools.resampled_avg_s)


def is_pool_change_sure(found: WhatIf) -> bool:
    """Return whether a change of one pool is worth its while for certain."""
    if found.pools is None:
        return False
    recorded, resampled = pool_differences(found, found.pools)
    is_worth_it = recorded.mean <= -100 * WORTH_A_CHANGE
    return is_worth_it and found.are_surely_lower(recorded, resampled)


def _who_words(found: WhatIf, best: str) -> str:
    """Describe which jobs gain and which lose."""
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
        return (
            f"How: between applications no setting of Spark gives {best}; it needs a cluster "
            "manager that enforces it."
        )
    if are_pooled(found.recording):
        return (
            f"How: these jobs came from {len(found.recording.slots)} applications, and a scheduler "
            "orders the jobs of one. Run them in one session (as by Spark Connect or a Thrift "
            "server), or ask for each log by itself."
        )
    if best == "fifo":
        return "How: fifo is Spark's default; unset spark.scheduler.mode."
    if best == POOLS:
        return "How: set spark.scheduler.mode=FAIR and keep the pools that the jobs name."
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
    """Format the call of `decima.spark.attach` for a policy with fitted parameters."""
    arguments = ["spark", f'policy="{policy}"']
    parameters = found.main.tuned.get(policy)
    if parameters:
        values = ", ".join(f'"{label}": {value:g}' for label, value in parameters.items())
        arguments.append(f"parameters={{{values}}}")
    return ", ".join(arguments)


def _size_words(found: WhatIf, best: str | None) -> Iterator[str]:
    """Describe other numbers of executors, and a policy's worth in executors."""
    main, reference = found.main.executors, found.settings.reference
    here_s = found.shared_avg_s(main, reference)
    parts = []
    for executors in found.sizes:
        if executors != main:
            there_s = found.shared_avg_s(executors, reference)
            change = percent(difference_percent(there_s, here_s))
            parts.append(f"{seconds(float(there_s.mean()))} on {executors:,} ({change})")
    if parts:
        yield (
            f"Slots: under {reference} the average JCT is {seconds(float(here_s.mean()))} on "
            f"{main:,}, {', '.join(parts)}."
        )
    half = found.sizes.get(main // 2)
    neediest = found.recording.neediest()
    if neediest is not None and 1 <= main // 2 < neediest.slots:
        yield f"{counted(main // 2, 'slot')} are impossible: {neediest.words()}."
    if half is not None and _piles_up(found, half):
        yield (
            f"{counted(half.executors, 'slot')} could not keep up with the recorded arrivals: "
            "there the JCT grows with the length of the recording."
        )
    if len(found.settings.policies) > 1:
        best_ones = [_best_of_size(found, executors, best) for executors in found.sizes]
        if all(words is None for words in best_ones):
            yield f"On none of these numbers of slots is a policy surely better than {reference}."
        else:
            each = (
                f"on {size:,} {words or f'none below {reference}'}"
                for size, words in zip(found.sizes, best_ones, strict=True)
            )
            yield f"Lowest average with the recorded arrivals: {', '.join(each)}."
    if best is not None and 2 * main in found.sizes:
        saved_s = here_s - found.shared_avg_s(main, best)
        bought_s = here_s - found.shared_avg_s(2 * main, reference)
        if (bought_s > 0).all() and (saved_s > 0).all():
            yield (
                f"{best} on the same slots gives {share(part_of(saved_s, bought_s))} of what twice "
                f"the slots would give under {reference}."
            )


def part_of(values: Float64, whole: Float64) -> Estimate:
    """The mean of `values` in percent of that of `whole`, paired."""
    difference = difference_percent(values, whole)
    if difference.ci95 is None:
        return Estimate(100 + difference.mean, None)
    low, high = difference.ci95
    return Estimate(100 + difference.mean, (100 + low, 100 + high))


def _piles_up(found: WhatIf, half: SizeResult) -> bool:
    """Return whether half the slots are overloaded: too much work for them, and growing queues."""
    reference = found.settings.reference
    here_s = float(found.shared_avg_s(found.main.executors, reference).mean())
    half_s = float(found.shared_avg_s(half.executors, reference).mean())
    return offered_load(found.recording, half.executors) > 1 and half_s > _PILED_UP * here_s


def _best_of_size(found: WhatIf, executors: int, best: str | None) -> str | None:
    """Return the policy of lowest average JCT if the change is large and certain, else None.

    The recommended one is named wherever it is as good as the lowest.
    """
    reference = found.settings.reference
    each_s = {name: found.shared_avg_s(executors, name) for name in found.settings.policies}
    averages = {name: float(avg_s.mean()) for name, avg_s in each_s.items()}
    lowest = min(averages, key=lambda name: averages[name])
    if best is not None and averages[best] <= (1 + WORTH_A_CHANGE) * averages[lowest]:
        lowest = best
    change = difference_percent(each_s[lowest], each_s[reference])
    if change.mean > -100 * WORTH_A_CHANGE or change.upper >= 0:
        return None
    return f"{lowest} ({percent(change)})"
