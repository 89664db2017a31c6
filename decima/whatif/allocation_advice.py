"""Sentences and a table on the settings of dynamic allocation."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from decima.rl.statistics import Estimate, difference_percent, mean_of
from decima.rl.tables import aligned
from decima.whatif.allocation_changes import AllocationResult
from decima.whatif.replay.check import Fidelity, relative_error
from decima.whatif.replay.report import USELESS_PERCENT
from decima.whatif.report import figure, percent, seconds
from decima.whatif.study import WhatIf
from traces.numbers import MS_PER_S

_WORTH_PERCENT = 2.0
_SAVED_PERCENT = 5.0
"""less slot time is not worth a sentence"""
HEADINGS = ("spark.dynamicAllocation.", "average JCT", "change", "slot time held", "change")


def fidelity(found: WhatIf) -> Fidelity | None:
    """Error of the model of dynamic allocation with the log's settings."""
    if not found.allocations:
        return None
    recorded_s = found.recording.recorded_ms / MS_PER_S
    simulated_s = found.allocations[0].recorded_jct_s.mean(axis=0)
    return Fidelity.of(relative_error(simulated_s, recorded_s))


def differences(found: WhatIf, one: AllocationResult) -> tuple[Estimate, Estimate, Estimate]:
    """Average JCT with recorded and with resampled arrivals, and slot time, against no change."""
    base = found.allocations[0]
    return (
        difference_percent(one.avg_s, base.avg_s),
        difference_percent(one.resampled_avg_s, base.resampled_avg_s),
        difference_percent(one.held_s, base.held_s),
    )


def fastest(found: WhatIf) -> AllocationResult | None:
    """The change with the lowest average JCT; None if none is lower for certain."""
    sure = [
        one
        for one in found.allocations[1:]
        if found.are_surely_lower(*differences(found, one)[:2])
        and differences(found, one)[0].mean <= -_WORTH_PERCENT
    ]
    return min(sure, key=lambda one: float(one.avg_s.mean()), default=None)


def cheapest(found: WhatIf) -> AllocationResult | None:
    """The change that saves most slot time at no cost in JCT; None if none does."""
    good = [
        one
        for one in found.allocations[1:]
        if differences(found, one)[2].mean <= -_SAVED_PERCENT
        and max(part.mean for part in differences(found, one)[:2]) <= _WORTH_PERCENT / 2
    ]
    return min(good, key=lambda one: float(one.held_s.mean()), default=None)


def allocation_words(found: WhatIf) -> Iterator[str]:
    """Describe what other settings of dynamic allocation would change, and what they cost."""
    error = fidelity(found)
    if error is None:
        return
    off = f"{error.median_error_percent:.0f} % off in the median, {error.bias_percent:+.0f} % on "
    if error.above(USELESS_PERCENT):
        yield (
            "Allocation: no advice on its settings, since the model of dynamic allocation "
            f"does not repeat this recording ({off}average)."
        )
        return
    base = found.allocations[0]
    yield (
        f"Allocation: simulated by Spark's rules and the log's settings ({off}average), an "
        f"executor comes {seconds(base.change.allocation.start_ms / MS_PER_S)} after its request, "
        f"and a job takes {seconds(float(base.avg_s.mean()))} on average."
    )
    best, saving = fastest(found), cheapest(found)
    if best is None:
        yield "Allocation: none of the changes that were tried ends jobs sooner for certain."
    else:
        yield f"Allocation, faster: with {_effect_words(found, best)}."
    if saving is not None:
        yield f"Allocation, cheaper: with {_effect_words(found, saving)}."


def _effect_words(found: WhatIf, one: AllocationResult) -> str:
    recorded, resampled, held = differences(found, one)
    return (
        f"{one.change.setting} the average JCT changes by {percent(recorded)} with the recorded "
        f"arrivals, {percent(resampled)} with resampled ones, and executors are held for "
        f"{percent(held)} time"
    )


def allocation_table(found: WhatIf) -> Table:
    """One row for each change of settings, recorded arrivals."""
    table = aligned(HEADINGS[:1], HEADINGS[1:])
    table.columns[0].max_width = 48
    for row in allocation_rows(found):
        table.add_row(*row)
    return table


def allocation_rows(found: WhatIf) -> Iterator[tuple[str, ...]]:
    """Yield the cells below `HEADINGS`, the settings of the log first."""
    for place, one in enumerate(found.allocations):
        recorded, _, held = differences(found, one)
        hours = f"{float(one.held_s.mean()) / 3600:,.2f} h"
        average = figure(mean_of(one.avg_s))
        if place == 0:
            yield ("as recorded", average, "", hours, "")
        else:
            yield (one.change.setting, average, percent(recorded), hours, percent(held))
