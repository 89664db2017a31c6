"""Tables (at most 100 columns wide) and JSON of a what-if."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rich.table import Table

from decima.registry import HEURISTICS
from decima.rl.statistics import Estimate, difference_percent, mean_of
from decima.rl.tables import aligned
from decima.whatif.load import by_length, offered_load
from decima.whatif.pool_changes import PoolResult
from decima.whatif.study import PolicyResult, WhatIf
from traces.files.names import counted
from traces.numbers import Float64

FORMAT, VERSION = "decima-whatif", 1
"""of the JSON form; a change that readers must know of is a new version"""


def seconds(value_s: float) -> str:
    """Three digits, with the unit."""
    digits = 2 if value_s < 9.995 else 1 if value_s < 99.95 else 0
    return f"{value_s:,.{digits}f} s"


def figure(estimate: Estimate) -> str:
    """A time with its interval."""
    return _with_interval(estimate, lambda value_s: seconds(value_s).removesuffix(" s"), " s")


def percent(estimate: Estimate) -> str:
    """A difference with its interval."""
    return _with_interval(estimate, _whole, " %")


def share(estimate: Estimate) -> str:
    """A part in percent with its interval; what rounds to nothing has no sign."""
    return _with_interval(estimate, lambda value: str(round(value)), " %")


def _with_interval(estimate: Estimate, digits: Callable[[float], str], unit: str) -> str:
    words = digits(estimate.mean) + unit
    if estimate.ci95 is None:
        return words
    low, high = map(digits, estimate.ci95)
    return f"{words} [{low}, {high}]"


def _whole(value: float) -> str:
    """A signed whole number; what rounds to nothing has no sign."""
    return f"{value:+.0f}" if abs(value) >= 0.5 else "0"


def signed(change: float) -> str:
    """A relative change in whole percent."""
    return f"{_whole(100 * change)} %"


class PolicyCell(NamedTuple):
    """A figure of one policy, beside the reference's."""

    value: float
    text: str  # the figure with its interval
    versus: str  # the difference to the reference; "" for that itself


def policy_cells(found: WhatIf, name: str, arrivals: str) -> list[PolicyCell]:
    """Average and tail JCT of a policy, with "recorded" or "resampled" arrivals."""
    first = _averages(found.main.policies[found.settings.reference], arrivals)
    cells = []
    for values, base in zip(_averages(found.main.policies[name], arrivals), first, strict=True):
        is_reference = name == found.settings.reference
        versus = "" if is_reference else percent(difference_percent(values, base))
        cells.append(PolicyCell(float(values.mean()), figure(mean_of(values)), versus))
    return cells


def policies_table(found: WhatIf, arrivals: str) -> Table:
    """Average and tail JCT of every policy, with "recorded" or "resampled" arrivals."""
    versus = f"vs {found.settings.reference}"
    table = aligned(("policy",), ("average JCT", versus, "p95 JCT", versus))
    for name in found.main.policies:
        cells = policy_cells(found, name, arrivals)
        table.add_row(name, *(text for cell in cells for text in cell[1:]))
    return table


def _averages(result: PolicyResult, arrivals: str) -> tuple[Float64, Float64]:
    """Average and 95th percentile, one for each draw or sequence."""
    if arrivals == "recorded":
        return result.avg_s, result.p95_s
    return result.resampled_avg_s, result.resampled_p95_s


def sizes_table(found: WhatIf) -> Table:
    """Average JCT by number of executors, recorded arrivals, in the draws that all have."""
    reference = found.settings.reference
    headings = [
        f"{counted(size, 'slot')} ({100 * offered_load(found.recording, size):.0f} % load)"
        for size in found.sizes
    ]
    table = aligned(("average JCT",), headings)
    for name in found.settings.policies:
        cells = []
        for size in found.sizes:
            mean_s = float(found.shared_avg_s(size, name).mean())
            change = mean_s / float(found.shared_avg_s(size, reference).mean()) - 1
            cells.append(seconds(mean_s) + ("" if name == reference else f" ({signed(change)})"))
        table.add_row(name, *cells)
    alone = [seconds(float(found.shared_avg_s(size, None).mean())) for size in found.sizes]
    table.add_row("no other jobs", *alone)
    return table


def lengths_table(found: WhatIf) -> Table:
    """Average JCT of short and long jobs, recorded arrivals."""
    table = aligned(("jobs",), ("number", "no other jobs", *found.settings.policies))
    for label, count, means in length_rows(found):
        table.add_row(label, f"{count:,}", *means)
    return table


def length_rows(found: WhatIf) -> Iterator[tuple[str, int, list[str]]]:
    """Yield thirds of the jobs, short to long: number, mean JCT alone and under each policy."""
    for label, rows in by_length(found.main.alone_s).items():
        every_s = [one.recorded_jct_s[:, rows] for one in found.main.policies.values()]
        means = [seconds(float(jct_s.mean())) for jct_s in (found.main.alone_s[rows], *every_s)]
        yield label, len(rows), means


def tuned_lines(found: WhatIf) -> Iterator[str]:
    """The parameters that were fitted."""
    for name, parameters in found.main.tuned.items():
        words = ", ".join(f"{label} {value:g}" for label, value in parameters.items())
        shipped = parameters == HEURISTICS[name].defaults
        yield f"{name}: {words}" + (" (as shipped: none was better)" if shipped else "")


def to_json(found: WhatIf) -> dict[str, Any]:
    """All figures in the documented form (`docs/whatif.md`)."""
    settings = found.settings
    return {
        "format": FORMAT,
        "version": VERSION,
        "settings": {**vars(settings), "policies": list(settings.policies)},
        "jobs": [job.name for job in found.recording.trace.jobs],
        "sizes": {str(size): _size_json(found, size) for size in found.sizes},
        "allocations": [
            {
                "setting": one.change.setting,
                "avg_jct_s": one.avg_s.tolist(),
                "held_s": one.held_s.tolist(),
            }
            for one in found.allocations
        ],
        "pools": None if found.pools is None else _pools_json(found.pools),
    }


def _pools_json(found: PoolResult) -> dict[str, Any]:
    return {
        "pool": {"name": found.change.name, **vars(found.change.pool)},
        "recorded_avg_jct_s": found.recorded_avg_s.tolist(),
        "resampled_avg_jct_s": found.resampled_avg_s.tolist(),
    }


def _size_json(found: WhatIf, executors: int) -> dict[str, Any]:
    size = found.sizes[executors]
    reference = size.policies[found.settings.reference]
    return {
        "load": offered_load(found.recording, executors),
        "alone_s": size.alone_s.tolist(),
        "policies": {
            name: {
                "parameters": dict(size.tuned.get(name, {})),
                "jct_s": result.recorded_jct_s.mean(axis=0).tolist(),
                "recorded": _arrivals_json(result, reference, "recorded"),
                "resampled": _arrivals_json(result, reference, "resampled"),
            }
            for name, result in size.policies.items()
        },
    }


def _arrivals_json(
    result: PolicyResult, reference: PolicyResult, arrivals: str
) -> dict[str, Any] | None:
    labels = ("avg_jct_s", "p95_jct_s")
    rows = zip(labels, _averages(result, arrivals), _averages(reference, arrivals), strict=True)
    figures: dict[str, Any] = {}
    for label, values, base in rows:
        if len(values) == 0:
            return None
        versus = difference_percent(values, base)
        figures[label] = {
            **vars(mean_of(values)),
            "difference_percent": vars(versus),
            "each": values.tolist(),
        }
    return figures
