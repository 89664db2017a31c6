"""Tables and JSON of a what-if."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from decima.registry import HEURISTICS
from decima.rl.statistics import difference_percent, mean_of
from decima.rl.tables import aligned, table_of
from decima.whatif.applications.workload import names_of
from decima.whatif.bounds import bounds_words
from decima.whatif.load import by_length, offered_load
from decima.whatif.results import ApplicationsWhatIf, Result, Study, WhatIf
from decima.whatif.text import figure, percent, seconds, signed
from traces.files.names import counted
from traces.numbers import MS_PER_S, Float64

FORMAT, APPLICATIONS_FORMAT, VERSION = "decima-whatif", "decima-whatif-applications", 1
"""of the JSON forms; a change that readers must know of is a new version"""
ALLOCATION_HEADINGS = (
    "spark.dynamicAllocation.",
    "average JCT",
    "change",
    "slot time held",
    "change",
)
_NAME_WIDTH = 48
_BOUNDS = ("max_slots", "max_jobs")


def _hours(held_s: Float64) -> str:
    """Slot time, as the mean over draws."""
    return f"{float(held_s.mean()) / 3600:,.2f} h"


class Cell(NamedTuple):
    """A figure of one policy, beside the reference's."""

    value: float
    text: str  # the figure with its interval
    versus: str  # the difference to the reference; "" for that itself


def policy_cells(study: Study, name: str) -> dict[str, Cell]:
    result, base = study.policies[name], study.reference
    figures = {"average": (result.avg_s, base.avg_s), "p95": (result.p95_s, base.p95_s)}
    if isinstance(study, ApplicationsWhatIf):
        figures["slot time held"] = (result.held_s, base.held_s)
    else:
        figures["average, resampled arrivals"] = (result.resampled_avg_s, base.resampled_avg_s)
        figures["p95, resampled arrivals"] = (result.resampled_p95_s, base.resampled_p95_s)
    return {
        heading: Cell(
            float(values.mean()),
            _hours(values) if values is result.held_s else figure(mean_of(values)),
            "" if result is base else percent(difference_percent(values, others)),
        )
        for heading, (values, others) in figures.items()
    }


def summary_table(study: Study) -> Table:
    """Every policy beside the reference, other settings of it, and the bound.

    With intervals over draws and over the second sample. Other numbers of executors are compared
    with the same policy on the given one, in the draws that both have.
    """
    reference, rows = study.settings.reference, dict(study.policies)
    second, last, sizes = "over jobs", ["slot time held"], list[int]()
    if isinstance(study, WhatIf):
        sizes = [size for size in study.sizes if size != study.settings.executors]
        second, last = "resampled", [counted(size, "slot") for size in sizes]
        if study.pools is not None:
            rows[study.pools[0].words()] = study.pools[1]
        if study.bounded is not None:
            words = bounds_words(study.settings.max_slots, study.settings.max_jobs)
            rows[f"{reference}, {words}"] = study.bounded
        if study.all_slots is not None:
            rows[f"{reference}, slots never go"] = study.all_slots
        rows["no other jobs"] = study.alone
    else:
        rows["whole cluster each"] = study.alone
    table = aligned(("policy",), ("average JCT", f"vs {reference}", second, "p95 change", *last))
    table.columns[0].max_width = _NAME_WIDTH
    for name, result in rows.items():
        cells = []
        if not isinstance(study, WhatIf):
            cells = [_hours(result.held_s)]
            if result is not study.reference:
                change = signed(result.held_s.mean() / study.reference.held_s.mean() - 1)
                cells = [f"{cells[0]} ({change})"]
        elif name in study.policies or result is study.alone:
            # The change of the average JCT by that number of executors.
            policy = None if result is study.alone else name
            here_s = study.shared_avg_s(study.settings.executors, policy)
            cells = [
                signed(difference_percent(study.shared_avg_s(size, policy), here_s).mean / 100)
                for size in sizes
            ]
        table.add_row(name, *_changes(study, result), *cells)
    return table


def _changes(study: Study, result: Result) -> list[str]:
    """Cells of a row: average, its changes in both samples, and the change of the p95."""
    base = study.reference
    average = seconds(float(result.avg_s.mean()))
    if result is base:
        return [average, "", "", ""]
    drawn = percent(difference_percent(result.avg_s, base.avg_s))
    has_second = isinstance(study, ApplicationsWhatIf) or len(result.resampled_avg_s) > 0
    second = percent(study.differences(result)[1]) if has_second else ""
    return [average, drawn, second, signed(result.p95_s.mean() / base.p95_s.mean() - 1)]


def groups(study: Study) -> dict[str, NDArray[np.int64]]:
    """Rows of the jobs by application, or in thirds by the time that they take alone."""
    if isinstance(study, ApplicationsWhatIf):
        application = study.recording.application
        return {
            name: np.flatnonzero(application == place)
            for place, name in enumerate(names_of(study.recording))
        }
    return by_length(study.alone.by_job_s)


def group_rows(study: Study) -> Iterator[tuple[str, int, list[Cell]]]:
    """Yield each group's label, its number of jobs, and average JCT by policy and at best."""
    for label, rows in groups(study).items():
        base_s = float(study.reference.jct_s[:, rows].mean())
        cells = []
        for result in (*study.policies.values(), study.alone):
            avg_s = float(result.jct_s[:, rows].mean())
            is_other = result is not study.reference and result is not study.alone
            cells.append(
                Cell(avg_s, seconds(avg_s), signed(avg_s / base_s - 1) if is_other else "")
            )
        yield label, len(rows), cells


def allocation_table(study: WhatIf) -> Table:
    return table_of(ALLOCATION_HEADINGS, allocation_rows(study), name_width=_NAME_WIDTH)


def allocation_rows(study: WhatIf) -> Iterator[tuple[str, ...]]:
    """Yield the cells below `ALLOCATION_HEADINGS`, the settings of the log first."""
    for change, result in study.allocations:
        base = study.allocations[0][1]
        average, held = figure(mean_of(result.avg_s)), _hours(result.held_s)
        if result is base:
            yield "as recorded", average, "", held, ""
        else:
            faster = percent(difference_percent(result.avg_s, base.avg_s))
            saved = percent(difference_percent(result.held_s, base.held_s))
            yield change.setting, average, faster, held, saved


def tuned_lines(study: WhatIf) -> Iterator[str]:
    for name, parameters in study.main.tuned.items():
        words = ", ".join(f"{label} {value:g}" for label, value in parameters.items())
        shipped = parameters == HEURISTICS[name].defaults
        yield f"{name}: {words}" + (" (as shipped: none was better)" if shipped else "")


def to_json(study: WhatIf) -> dict[str, Any]:
    settings = study.settings
    pools = None
    if study.pools is not None:
        change, result = study.pools
        pools = {
            "pool": {"name": change.name, **vars(change.pool)},
            "recorded_avg_jct_s": result.avg_s.tolist(),
            "resampled_avg_jct_s": result.resampled_avg_s.tolist(),
        }
    sizes = {}
    for number, size in study.sizes.items():
        base = size.policies[settings.reference]
        sizes[str(number)] = {
            "load": offered_load(study.recording, number),
            "alone_s": size.alone.by_job_s.tolist(),
            "policies": {
                name: {
                    "parameters": dict(size.tuned.get(name, {})),
                    "jct_s": result.by_job_s.tolist(),
                    **_both_json(result, base),
                }
                for name, result in size.policies.items()
            },
        }
    shown = {name: value for name, value in vars(settings).items() if name not in _BOUNDS}
    content = {
        "format": FORMAT,
        "version": VERSION,
        "settings": {**shown, "policies": list(settings.policies)},
        "jobs": [job.name for job in study.recording.trace.jobs],
        "sizes": sizes,
        "allocations": [
            {
                "setting": change.setting,
                "avg_jct_s": result.avg_s.tolist(),
                "held_s": result.held_s.tolist(),
            }
            for change, result in study.allocations
        ],
        "pools": pools,
    }
    if study.bounded is not None:
        content["bounded"] = {
            **{name: getattr(settings, name) for name in _BOUNDS},
            "jct_s": study.bounded.by_job_s.tolist(),
            **_both_json(study.bounded, study.reference),
        }
    return content


def _both_json(result: Result, base: Result) -> dict[str, Any]:
    """Figures with recorded and with resampled arrivals."""
    return {
        "recorded": _figures_json((result.avg_s, result.p95_s), (base.avg_s, base.p95_s)),
        "resampled": _figures_json(
            (result.resampled_avg_s, result.resampled_p95_s),
            (base.resampled_avg_s, base.resampled_p95_s),
        )
        if len(result.resampled_avg_s) > 0
        else None,
    }


def _figures_json(
    figures: tuple[Float64, Float64], base: tuple[Float64, Float64]
) -> dict[str, Any]:
    """Average and 95th percentile beside the reference's."""
    return {
        label: {
            **mean_of(values).to_json(),
            "difference_percent": difference_percent(values, others).to_json(),
            "each": values.tolist(),
        }
        for label, values, others in zip(("avg_jct_s", "p95_jct_s"), figures, base, strict=True)
    }


def applications_json(study: ApplicationsWhatIf) -> dict[str, Any]:
    settings, workload, base = study.settings, study.workload, study.reference
    fidelity = study.check().fidelity("all")
    shown = {name: value for name, value in vars(settings).items() if name != "policies"}
    return {
        "format": APPLICATIONS_FORMAT,
        "version": VERSION,
        "settings": {**shown, "ways": list(settings.policies)},
        "executors": workload.executors,
        "slots_each": workload.slots_each,
        "moving_delay_s": workload.delay_ms / MS_PER_S,
        "applications": names_of(study.recording),
        "jobs": [
            {"name": job.name, "application": int(place), "recorded_s": float(took_ms / MS_PER_S)}
            for job, place, took_ms in zip(
                study.recording.trace.jobs,
                study.recording.application,
                study.recording.recorded_ms,
                strict=True,
            )
        ],
        "replay": None if fidelity is None else vars(fidelity),
        "alone_s": study.alone.by_job_s.tolist(),
        "ways": {
            name: {
                "jct_s": result.by_job_s.tolist(),
                "held_s": result.held_s.tolist(),
                "executors_started": result.starts.tolist(),
                "jobs_difference_percent": study.differences(result)[1].to_json(),
                **_figures_json((result.avg_s, result.p95_s), (base.avg_s, base.p95_s)),
            }
            for name, result in study.policies.items()
        },
    }
