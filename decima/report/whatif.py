"""The section of a what-if: plain words first, figures after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from decima.evaluation.timeline import task_table
from decima.registry import HEURISTICS
from decima.report.forest import Forest, forest
from decima.report.gantt import Run, gantt, graphs
from decima.report.section import Lines, Section, completion, series
from decima.rl.statistics import difference_percent
from decima.whatif.advice import can_be_trusted, findings
from decima.whatif.allocation_advice import HEADINGS, allocation_rows
from decima.whatif.caveats import caveats
from decima.whatif.jobs import JobChange, compared_policy, job_changes
from decima.whatif.replay import ReplayReport
from decima.whatif.replay.recording import POOLS
from decima.whatif.replay.report import verdict
from decima.whatif.report import PolicyCell, length_rows, policy_cells, seconds
from decima.whatif.study import WhatIf, tasks_of

_MOST_JOBS = 200  # rows of the table of jobs: of more, those that gain and those that lose most


def whatif_sections(found: WhatIf, check: ReplayReport, facts: list[str]) -> list[Section]:
    """All sections of the page of `decima whatif`; arguments as for `whatif_section`."""
    sections = [whatif_section(found, check, facts), waiting_section(found, check)]
    return [section for section in sections if section is not None]


def whatif_section(found: WhatIf, check: ReplayReport, facts: list[str]) -> Section:
    """Section with the results of `decima whatif`; `facts` are sentences on the recording."""
    return Section(
        anchor="whatif",
        heading="What would change",
        template="whatif.html",
        content={
            "facts": [*facts, verdict(check)],
            "findings": list(findings(found, check)),
            "caveats": list(caveats(found, check)),
            "reference": found.settings.reference,
            "slots": found.settings.executors,
            "policies": {name: _cells(found, name) for name in found.main.policies},
            "lengths": list(length_rows(found)),
            "length_policies": list(found.settings.policies),
            "summaries": {name: _summary(name) for name in found.settings.policies},
            "jobs": _jobs(found) if can_be_trusted(check) else None,
            "allocation_headings": HEADINGS,
            "allocations": list(allocation_rows(found)) if can_be_trusted(check) else [],
        },
        forest=_forest(found) if can_be_trusted(check) else None,
        charts=list(_charts(found)),
    )


def waiting_section(found: WhatIf, check: ReplayReport) -> Section | None:
    """Every task under the reference and the best policy; None if there is none to trust."""
    policy = compared_policy(found)
    if policy is None or not can_be_trusted(check):
        return None
    reference, trace = found.settings.reference, found.recording.trace
    drawn = []
    for name in (reference, policy):
        arrivals, record = tasks_of(found, name)
        table = task_table(name, 0, trace, arrivals.job, record)
        drawn.append(gantt(table, Run(name, 0), trace, row="slot"))
    return Section(
        anchor="timelines",
        heading="Which jobs wait for which",
        template="timelines.html",
        content={
            "recorded": len(drawn),
            "sequences": 1,
            "evaluated": 1,
            "intro": f"The recorded jobs again, with one draw of the durations of tasks: under "
            f"{reference}, and under {policy}. Choose a job, and see when it waits and whose "
            "tasks run meanwhile.",
        },
        timelines=drawn,
        graphs=graphs(drawn, trace),
    )


def _cells(found: WhatIf, name: str) -> list[PolicyCell]:
    """Return averages and tails of a policy, with recorded and with resampled arrivals."""
    return policy_cells(found, name, "recorded") + policy_cells(found, name, "resampled")


def _forest(found: WhatIf) -> Forest | None:
    """Average JCT against the reference, with recorded and with resampled arrivals."""
    reference = found.main.policies[found.settings.reference]
    rows = {}
    for name, one in found.main.policies.items():
        if one is not reference:
            rows[f"{name}, recorded arrivals"] = difference_percent(one.avg_s, reference.avg_s)
            rows[f"{name}, resampled"] = difference_percent(
                one.resampled_avg_s, reference.resampled_avg_s
            )
    return forest(f"Average JCT against {found.settings.reference}", rows)


def _summary(policy: str) -> str:
    """One line that explains a policy."""
    if policy in HEURISTICS:
        return HEURISTICS[policy].summary
    if policy == POOLS:
        return "Spark's FAIR scheduler with the pools of the recording: weight, minShare and mode"
    return "a learned policy: a graph network chooses the next stage and its job's limit"


def _jobs(found: WhatIf) -> dict[str, Any] | None:
    """The jobs under the best policy beside the reference; None where there is no other policy."""
    policy = compared_policy(found)
    if policy is None:
        return None
    changes = job_changes(found, policy)
    half = _MOST_JOBS // 2
    shown = changes if len(changes) <= _MOST_JOBS else [*changes[:half], *changes[-half:]]
    return {
        "policy": policy,
        "total": len(changes),
        "sooner": sum(one.is_sooner for one in changes),
        "later": sum(one.is_later for one in changes),
        "shown": len(shown),
        "rows": [_job_row(one) for one in shown],
    }


def _job_row(change: JobChange) -> dict[str, Any]:
    """Cells of a job: values to sort by, and words."""
    times_s = (change.submitted_s, change.recorded_s, change.alone_s)
    both_s = (change.reference_s, change.policy_s)
    cells = [{"value": value_s, "text": seconds(value_s)} for value_s in (*times_s, *both_s)]
    words = f"{change.change_s:+.3g} s ({change.change_percent:+.0f} %)"
    return {"name": change.name, "cells": [*cells, {"value": change.change_s, "text": words}]}


def _charts(found: WhatIf) -> Iterator[Lines]:
    sizes = np.array(sorted(found.sizes), float)
    averages = {
        name: np.array([found.shared_avg_s(int(n), name).mean() for n in sizes])
        for name in found.settings.policies
    }
    alone = np.array([found.shared_avg_s(int(n), None).mean() for n in sizes])
    yield Lines(
        "Average completion time by the number of slots, recorded arrivals",
        series(sizes, {**averages, "no other jobs": alone}),
        "slots",
        "average completion time, s",
    )
    yield completion(
        "the recorded jobs",
        {n: one.recorded_jct_s.mean(axis=0) for n, one in found.main.policies.items()},
    )
