"""Tables (at most 100 columns wide where names allow it) and JSON of several applications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from decima.rl.statistics import difference_percent, mean_of
from decima.rl.tables import aligned
from decima.whatif import load
from decima.whatif.applications.study import ApplicationsWhatIf
from decima.whatif.applications.workload import names_of
from decima.whatif.report import PolicyCell, figure, percent, seconds, signed
from traces.files.names import counted
from traces.numbers import MS_PER_S, Float64

FORMAT, VERSION = "decima-whatif-applications", 1
"""of the JSON form; a change that readers must know of is a new version"""
_NAME_WIDTH = 24
_SECONDS_PER_HOUR = 3_600


def facts(found: ApplicationsWhatIf) -> list[str]:
    """Describe what was recorded."""
    recording, workload = found.recording, found.workload
    slots = workload.executors * workload.slots_each
    size = "" if workload.slots_each == 1 else f" of {counted(workload.slots_each, 'slot')} each"
    busy = 100 * load.offered_load(recording, slots)
    return [
        f"{counted(len(recording.trace.jobs), 'job')} of "
        f"{counted(len(recording.slots), 'application')}, up to {workload.at_once:,} at once, on "
        f"{counted(workload.executors, 'executor')}{size}; their tasks keep these busy "
        f"{busy:.0f} % of the {load.span_s(recording):,.0f} s. As recorded, a job took "
        f"{seconds(load.recorded_avg_s(recording))} on average.",
        *_delay_words(found),
        *recording.summary.left_out(),
    ]


def _delay_words(found: ApplicationsWhatIf) -> list[str]:
    """Describe how long an executor takes to come, where that was measured."""
    if not found.is_delay_measured:
        return []
    return [
        f"An executor takes {seconds(found.workload.delay_ms / MS_PER_S)} to come, as these logs "
        "show: from its request, an application's start, or the end of the one whose place it took."
    ]


def way_cells(found: ApplicationsWhatIf, name: str) -> list[PolicyCell]:
    """Average, 95th percentile and executor time of a way, beside the reference's."""
    way, base = found.ways[name], found.reference
    cells = []
    for values, other in ((way.avg_s, base.avg_s), (way.p95_s, base.p95_s)):
        cells.append(_cell(found, name, values, other, figure(mean_of(values))))
    hours = f"{float(way.held_s.mean()) / _SECONDS_PER_HOUR:,.2f} h"
    cells.append(_cell(found, name, way.held_s, base.held_s, hours))
    return cells


def _cell(
    found: ApplicationsWhatIf, name: str, values: Float64, base: Float64, text: str
) -> PolicyCell:
    is_reference = name == found.settings.reference
    versus = "" if is_reference else percent(difference_percent(values, base))
    return PolicyCell(float(values.mean()), text, versus)


def ways_table(found: ApplicationsWhatIf) -> Table:
    """One row for each way to divide the executors."""
    versus = f"vs {found.settings.reference}"
    table = aligned(("way",), ("average JCT", versus, "p95 JCT", versus, "slot time held"))
    for name in found.ways:
        average, tail, held = way_cells(found, name)
        change = f" ({held.versus.partition(' %')[0]} %)" if held.versus else ""
        table.add_row(
            name, average.text, average.versus, tail.text, tail.versus, held.text + change
        )
    return table


def applications_table(found: ApplicationsWhatIf) -> Table:
    """Average JCT of each application's jobs under each way."""
    table = aligned(("application",), ("jobs", *found.ways, "alone"))
    table.columns[0].max_width = _NAME_WIDTH
    for name, jobs, cells in application_rows(found):
        row = (cell.text for cell in cells)
        table.add_row(Text(name), f"{jobs:,}", *row)  # a log's text is no markup
    return table


def application_rows(found: ApplicationsWhatIf) -> Iterator[tuple[str, int, list[PolicyCell]]]:
    """Yield name, number of jobs, and average JCT under each way and with the whole cluster."""
    for place, name in enumerate(names_of(found.recording)):
        rows = found.recording.application == place
        base_s = float(found.reference.jct_s[:, rows].mean())
        cells = []
        for label, way in (*found.ways.items(), ("", found.alone)):
            own_s = float(way.jct_s[:, rows].mean())
            is_other = label not in ("", found.settings.reference)
            cells.append(
                PolicyCell(own_s, seconds(own_s), signed(own_s / base_s - 1) if is_other else "")
            )
        yield name, int(rows.sum()), cells


def to_json(found: ApplicationsWhatIf) -> dict[str, Any]:
    """All figures in the documented form (`docs/whatif.md`)."""
    settings, workload = found.settings, found.workload
    fidelity = found.check().fidelity("all")
    return {
        "format": FORMAT,
        "version": VERSION,
        "settings": {**vars(settings), "ways": list(settings.ways)},
        "executors": workload.executors,
        "slots_each": workload.slots_each,
        "moving_delay_s": workload.delay_ms / MS_PER_S,
        "applications": names_of(found.recording),
        "jobs": [
            {"name": job.name, "application": int(place), "recorded_s": float(took_ms / MS_PER_S)}
            for job, place, took_ms in zip(
                found.recording.trace.jobs,
                found.recording.application,
                found.recording.recorded_ms,
                strict=True,
            )
        ],
        "replay": None if fidelity is None else vars(fidelity),
        "alone_s": np.mean(found.alone.jct_s, axis=0).tolist(),
        "ways": {name: _way_json(found, name) for name in found.ways},
    }


def _way_json(found: ApplicationsWhatIf, name: str) -> dict[str, Any]:
    way, base = found.ways[name], found.reference
    return {
        "jct_s": way.jct_s.mean(axis=0).tolist(),
        "held_s": way.held_s.tolist(),
        "executors_started": way.starts.tolist(),
        "jobs_difference_percent": found.of_jobs(name).to_json(),
        **{
            label: {
                **mean_of(values).to_json(),
                "difference_percent": difference_percent(values, other).to_json(),
                "each": values.tolist(),
            }
            for label, values, other in (
                ("avg_jct_s", way.avg_s, base.avg_s),
                ("p95_jct_s", way.p95_s, base.p95_s),
            )
        },
    }
