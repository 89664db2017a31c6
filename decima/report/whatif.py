"""Sections of a what-if: plain words first, figures after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from decima.evaluation.timeline import task_table
from decima.registry import HEURISTICS
from decima.report.section import Bars, Lines, Section, completion, forest, series
from decima.report.timelines import Run, gantt, graphs
from decima.whatif import each_report
from decima.whatif.advice import advised, caveats, facts, findings
from decima.whatif.budget import HEADINGS, Budget
from decima.whatif.each import Looks
from decima.whatif.replay import Recording, ReplayReport
from decima.whatif.replay.breakdown import PARTS
from decima.whatif.replay.losses import Losses
from decima.whatif.replay.pools import DEFAULT_POOL
from decima.whatif.replay.recording import POOLS
from decima.whatif.replay.report import can_be_trusted, parts_words, verdict
from decima.whatif.report import (
    ALLOCATION_HEADINGS,
    Cell,
    allocation_rows,
    group_rows,
    policy_cells,
)
from decima.whatif.results import Study, WhatIf
from decima.whatif.settings import OWN_WAYS
from decima.whatif.study import tasks_of
from decima.whatif.submission import HEADINGS as SUBMISSION_HEADINGS
from decima.whatif.submission import Submission, hint
from decima.whatif.text import seconds
from traces.files.names import counted
from traces.numbers import MS_PER_S

_MOST_JOBS = 200  # rows of the table of jobs: of more, those that gain and those that lose most
_MOST_BARS = 15
_PART_COLOURS = (
    "#d55e00", "#e69f00", "#56b4e9", "#0072b2", "#cc79a7", "#a0522d", "#8c8c8c",
)  # fmt: skip
"""of the parts of the JCT, in the order of `PARTS`"""
_LEAST_CHANGE = 0.01  # relative change of a job's JCT that counts as sooner or later


def whatif_sections(
    study: Study,
    check: ReplayReport,
    lost: Losses | None = None,
    planned: Budget | None = None,
    submitted: Submission | None = None,
    effects: tuple[str, ...] = (),
) -> list[Section]:
    """All sections of the page of `decima whatif`; `effects` are words on what was asked for."""
    sections = [whatif_section(study, check, effects)]
    if submitted is None and isinstance(study, WhatIf) and (words := hint(study)) is not None:
        sections[0].content["findings"].append(words)
    if planned is not None:
        sections.append(budget_section(planned))
    if submitted is not None:
        sections.append(submission_section(submitted))
    if study.recording.breakdowns:
        sections.append(breakdown_section(study.recording, lost))
    waiting = waiting_section(study, check) if isinstance(study, WhatIf) else None
    return sections if waiting is None else [*sections, waiting]


def whatif_section(study: Study, check: ReplayReport, effects: tuple[str, ...] = ()) -> Section:
    """Section with the words and figures of `decima whatif`, with or without `--applications`."""
    is_trusted = can_be_trusted(check)
    charts = []
    content: dict[str, Any] = {
        "facts": [*facts(study), *effects, verdict(check)],
        "findings": list(findings(study, check)),
        "caveats": list(caveats(study, check)),
        "advised": list(advised(study, check)),
        "reference": study.settings.reference,
        "policies": {name: policy_cells(study, name) for name in study.policies},
        "summaries": {name: _summary(study, name) for name in study.policies},
        "groups": list(group_rows(study)),
        "jobs": None,
        "allocations": [],
        "allocation_headings": ALLOCATION_HEADINGS,
    }
    if isinstance(study, WhatIf):
        content["compared"] = f"Policies on {counted(study.settings.executors, 'slot')}"
        content["grouped"] = ("Short and long jobs", "jobs", "number", "no other jobs")
        sizes = sorted(study.sizes)
        averages = {
            "no other jobs" if name is None else name: np.array(
                [study.shared_avg_s(size, name).mean() for size in sizes]
            )
            for name in (*study.policies, None)
        }
        charts.append(
            Lines(
                "Average completion time by the number of slots, recorded arrivals",
                series(np.array(sizes, float), averages),
                "slots",
                "average completion time, s",
            )
        )
        if is_trusted:
            content["jobs"] = _jobs(study)
            content["allocations"] = list(allocation_rows(study))
    else:
        content["compared"] = "Ways to divide the executors"
        content["grouped"] = (
            "Applications that gain and lose",
            "application",
            "jobs",
            "whole cluster",
        )
    differences = {}
    for name, result in study.policies.items():
        if result is not study.reference:
            drawn, second = study.differences(result)
            if isinstance(study, WhatIf):
                differences[f"{name}, recorded arrivals"] = drawn
                differences[f"{name}, resampled"] = second
            else:
                differences[name] = drawn
    title = f"Average JCT against {study.settings.reference}"
    mean_s = {name: result.by_job_s for name, result in study.policies.items()}
    return Section(
        anchor="whatif",
        heading="What would change",
        template="whatif.html",
        content=content,
        forest=forest(title, differences) if is_trusted else None,
        charts=[*charts, completion("the recorded jobs", mean_s)],
    )


def breakdown_section(recording: Recording, lost: Losses | None) -> Section:
    """Section on where the time of the recorded jobs went, the longest jobs first."""
    parts_ms = np.array(recording.breakdowns)
    order = np.argsort(-recording.recorded_ms, kind="stable")[:_MOST_JOBS].tolist()
    names = [job.name for job in recording.trace.jobs]
    pools = [record.pool for record in recording.driver]
    labels = [part.label for part in PARTS.values()]
    rows = []
    for row in order:
        whole_s = float(parts_ms[row].sum()) / MS_PER_S
        cells = [Cell(whole_s, seconds(whole_s), "")]
        for part_s in (parts_ms[row] / MS_PER_S).tolist():
            share = f"{100 * part_s / whole_s:.0f} %" if part_s > 0 else ""
            cells.append(Cell(part_s, seconds(part_s) if part_s > 0 else "", share))
        rows.append({"name": names[row], "pool": pools[row] or DEFAULT_POOL, "cells": cells})
    has_pools = any(pool is not None for pool in pools)
    bars = {"all jobs": parts_ms.sum(axis=0).tolist()}
    bars |= {names[row]: parts_ms[row].tolist() for row in order[:_MOST_BARS]}
    return Section(
        anchor="breakdown",
        heading="Where the time went",
        template="breakdown.html",
        content={
            "headline": parts_words(recording),
            "losses": None if lost is None else lost.words(),
            "meanings": [(part.label, part.meaning) for part in PARTS.values()],
            "headings": ["job", *(["pool"] if has_pools else []), "JCT", *labels],
            "has_pools": has_pools,
            "rows": rows,
            "shown": len(rows),
            "total": len(names),
        },
        charts=[_bars_of_parts("Where the time of the longest jobs went", bars)],
    )


def each_section(
    looks: Looks, rows: Sequence[each_report.Row], pages: Sequence[str | None]
) -> Section:
    """Section of the totals of all applications, and of `rows`: those that would gain most.

    `pages` has the address of the page of each, relative to this one; None without one.
    """
    first, *others = each_report.words(looks)
    bars = {"all applications": looks.parts_s(), **{row.label: row.look.parts_s for row in rows}}
    return Section(
        anchor="each",
        heading="Many applications",
        template="each.html",
        content={
            "headline": first,
            "words": others,
            "headings": each_report.HEADINGS,
            "rows": [
                {"cells": row.cells(), "page": page, "verdict": row.verdict}
                for row, page in zip(rows, pages, strict=True)
            ],
        },
        charts=[
            _bars_of_parts(
                "Where the time of the jobs went",
                {name: list(parts_s.values()) for name, parts_s in bars.items()},
            )
        ],
    )


def _bars_of_parts(title: str, bars: Mapping[str, Sequence[float]]) -> Bars:
    """A bar of each name: the share of every part of the JCT (`PARTS`)."""
    labels = [part.label for part in PARTS.values()]
    shares = {
        name: dict(zip(labels, (part / max(sum(parts), 1e-9) for part in parts), strict=True))
        for name, parts in bars.items()
    }
    colours = dict(zip(labels, _PART_COLOURS, strict=True))
    return Bars(title, shares, "share of the JCT, %", colours)


def budget_section(planned: Budget) -> Section:
    points = {
        policy: [
            (float(cost), float(p95_s))
            for cost, p95_s in zip(
                planned.cost[policy].mean(axis=1), planned.p95_s[policy].mean(axis=1), strict=True
            )
        ]
        for policy in planned.cost
    }
    for policy, options in planned.dynamic.items():
        points[f"{policy}, dynamic"] = list[tuple[float, float]]()
        for point in sorted(
            (float(option.cost.mean()), float(option.p95_s.mean())) for option in options
        ):
            # Of the settings those that no other one beats in cost and p95.
            if all(point[1] < p95_s for _, p95_s in points[f"{policy}, dynamic"]):
                points[f"{policy}, dynamic"].append(point)
    x = np.unique([cost for line in points.values() for cost, _ in line])
    lines = {}
    for label, line in points.items():
        lines[label] = np.full(len(x), np.nan)
        lines[label][np.searchsorted(x, [cost for cost, _ in line])] = [p95_s for _, p95_s in line]
    what = "a number of executors"
    if planned.dynamic:
        what += ", or settings of dynamic allocation that no other ones beat in both"
    return Section(
        anchor="budget",
        heading="On a budget",
        template="budget.html",
        content={
            "heading": planned.heading(),
            "price": f"{planned.terms.price:g}",
            "caveat": planned.caveat() or "",
            "advised": planned.words(),
            "files": planned.files(),
            "headings": HEADINGS,
            "rows": list(planned.rows()),
        },
        charts=[
            Lines(
                f"p95 of JCT by cost; a point is {what}, recorded arrivals",
                series(x, lines),
                "cost",
                "p95 of JCT, s",
                spans_gaps=True,
            )
        ],
    )


def submission_section(answer: Submission) -> Section:
    change = answer.advised()
    return Section(
        anchor="submission",
        heading="If the driver did not wait",
        template="submission.html",
        content={
            "headline": answer.headline(),
            "sentences": [answer.kept_words(), answer.assumed_words()],
            "files": {} if change is None else change[1],
            "headings": SUBMISSION_HEADINGS,
            "rows": list(answer.rows()),
            "dependencies": list(answer.dependency_words()),
            "is_trusted": answer.is_trusted,
        },
    )


def waiting_section(study: WhatIf, check: ReplayReport) -> Section | None:
    """Every task under the reference and the best policy; None if there is none to trust."""
    policy = compared_policy(study)
    if policy is None or not can_be_trusted(check):
        return None
    reference, trace = study.settings.reference, study.recording.trace
    drawn = []
    for name in (reference, policy):
        arrivals, record = tasks_of(study, name)
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


def compared_policy(study: WhatIf) -> str | None:
    """The policy to show beside the reference: the recommended one, else that of lowest average."""
    others = [name for name in study.policies if name != study.settings.reference]
    lowest = min(others, key=lambda name: float(study.policies[name].avg_s.mean()), default=None)
    return study.best() or lowest


def _summary(study: Study, policy: str) -> str:
    """One line that explains a policy, or a way to divide a cluster."""
    is_session = isinstance(study, WhatIf)
    if not is_session and policy in OWN_WAYS:
        return OWN_WAYS[policy]
    prefix = "" if is_session else "a coordinator's policy: "
    if policy in HEURISTICS:
        return prefix + HEURISTICS[policy].summary
    if policy == POOLS:
        return "Spark's FAIR scheduler with the pools of the recording: weight, minShare and mode"
    return f"{prefix}a graph network chooses the next stage and its job's limit"


def _jobs(study: WhatIf) -> dict[str, Any] | None:
    """The jobs under the best policy beside the reference; None where there is no other policy."""
    policy = compared_policy(study)
    if policy is None:
        return None
    recording = study.recording
    submitted_ms = recording.arrival_ms - recording.arrival_ms.min()
    alone_s, before_s, after_s = (
        result.by_job_s for result in (study.alone, study.reference, study.policies[policy])
    )
    change_s = after_s - before_s
    by_change = np.argsort(change_s, kind="stable")
    half = _MOST_JOBS // 2
    shown = by_change
    if len(by_change) > _MOST_JOBS:
        shown = np.concatenate([by_change[:half], by_change[-half:]])
    times_s = (
        submitted_ms / MS_PER_S,
        recording.recorded_ms / MS_PER_S,
        alone_s,
        before_s,
        after_s,
    )
    rows = []
    for row in shown.tolist():
        cells = [{"value": float(t[row]), "text": seconds(float(t[row]))} for t in times_s]
        words = f"{change_s[row]:+.3g} s ({100 * change_s[row] / before_s[row]:+.0f} %)"
        cells.append({"value": float(change_s[row]), "text": words})
        rows.append({"name": recording.trace.jobs[row].name, "cells": cells})
    return {
        "policy": policy,
        "total": len(by_change),
        "sooner": int((change_s < -_LEAST_CHANGE * before_s).sum()),
        "later": int((change_s > _LEAST_CHANGE * before_s).sum()),
        "shown": len(rows),
        "rows": rows,
    }
