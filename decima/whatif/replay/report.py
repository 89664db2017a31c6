"""The replay check in words and tables, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.table import Table

from decima.rl.tables import aligned
from decima.whatif.replay.allocation import mean_slots
from decima.whatif.replay.breakdown import PARTS
from decima.whatif.replay.check import GROUPS, ReplayReport
from decima.whatif.replay.pools import DEFAULT_POOL
from decima.whatif.replay.recording import POOLS, Recording
from decima.whatif.text import seconds
from spark_sim.tables import NONE
from traces.files.names import counted
from traces.numbers import MS_PER_S, Float64

TARGET_PERCENT = {"alone": 5.0, "overlapping": 9.0}
"""errors of the paper's simulator (Decima, section 6.2) against its own Spark cluster"""
TRUSTED_PERCENT = TARGET_PERCENT["overlapping"]
"""up to this median error and bias the simulator can be relied on"""
USELESS_PERCENT = 2 * TRUSTED_PERCENT  # above it the simulator misses something that matters
_NAME_WIDTH = 40
_LEAST_SHARE_PERCENT = 0.5  # a smaller part is not named


def can_be_trusted(report: ReplayReport) -> bool:
    """Return whether the simulator repeats the recording well enough for advice."""
    fidelity = report.fidelity("all")
    return fidelity is not None and not fidelity.above(USELESS_PERCENT)


def fidelity_table(report: ReplayReport) -> Table:
    """One row for each group of jobs; none for all where these are one group."""
    headings = ("jobs", "median |error|", "mean bias", "aim", "without driver times")
    table = aligned(("jobs that ran",), headings)
    is_one_group = report.overlapped.all() or not report.overlapped.any()
    for group in GROUPS[:-1] if is_one_group else GROUPS:
        simulated, tasks_only = report.fidelity(group), report.fidelity(group, driver_times=False)
        if simulated is None or tasks_only is None:
            continue
        aim = TARGET_PERCENT.get(group)
        table.add_row(
            group,
            f"{simulated.jobs:,}",
            f"{simulated.median_error_percent:.1f} %",
            f"{simulated.bias_percent:+.1f} %",
            "" if aim is None else f"{aim:.0f} %",
            f"{tasks_only.median_error_percent:.1f} %, bias {tasks_only.bias_percent:+.1f} %",
        )
    return table


def worst_jobs_table(report: ReplayReport, count: int) -> Table:
    """The `count` jobs with the largest errors."""
    recording = report.recording
    pools = _pool_cells(recording)
    headings = ("recorded", "simulated", "error", "tasks alone")
    table = aligned(("job", *(("pool",) if pools else ())), headings)
    table.columns[0].max_width = _NAME_WIDTH
    table.add_column("ran", no_wrap=True)
    for row in np.argsort(-np.abs(report.error), kind="stable")[:count]:
        table.add_row(
            recording.trace.jobs[row].name,
            *pools[row : row + 1],
            f"{report.recorded_s[row]:,.2f} s",
            f"{report.simulated_s[row]:,.2f} \N{PLUS-MINUS SIGN} {report.spread_s[row]:.2f} s",
            f"{100 * report.error[row]:+.0f} %",
            f"{report.tasks_only_s[row]:,.2f} s",
            "overlapping" if report.overlapped[row] else "alone",
        )
    return table


def parts_table(recording: Recording, count: int) -> Table:
    """Percent of the JCT for each part that is not nothing: of all jobs, and of `count` longest."""
    parts_ms = np.array(recording.breakdowns)
    shown = np.flatnonzero(parts_ms.sum(axis=0) > 0).tolist()
    labels = list(PARTS.values())
    pools = _pool_cells(recording)
    words = ("job", *(("pool",) if pools else ()))
    table = aligned(words, ("JCT", *(labels[place].label for place in shown)))
    table.columns[0].max_width = _NAME_WIDTH
    by_length = np.argsort(-recording.recorded_ms, kind="stable")[:count].tolist()
    average = ("all jobs, on average", *([""] if pools else [])), parts_ms.mean(axis=0)
    each = (
        ((recording.trace.jobs[row].name, *pools[row : row + 1]), parts_ms[row])
        for row in by_length
    )
    for names, row_ms in (average, *each):
        whole_ms = row_ms.sum()
        cells = (f"{100 * row_ms[place] / max(whole_ms, 1e-9):.0f} %" for place in shown)
        table.add_row(*names, seconds(whole_ms / MS_PER_S), *cells)
    return table


def _pool_cells(recording: Recording) -> list[str]:
    """The pool of each job; empty where the log names none."""
    pools = [record.pool for record in recording.driver]
    return [] if set(pools) == {None} else [pool or DEFAULT_POOL for pool in pools]


def parts_words(recording: Recording) -> str:
    """One sentence on where the time of all jobs went, the largest part first; "" if not known."""
    if not recording.breakdowns:
        return ""
    return shares_words(np.array(recording.breakdowns).sum(axis=0))


def shares_words(parts: Float64) -> str:
    """One sentence on the shares of (P,) total times of the parts, the largest first."""
    shares = 100 * parts / max(parts.sum(), 1e-9)
    labels = [part.label for part in PARTS.values()]
    named = [
        f"{labels[place]} {shares[place]:.0f} %"
        for place in np.argsort(-shares, kind="stable").tolist()
        if shares[place] >= _LEAST_SHARE_PERCENT
    ]
    return f"Where the time went: {', '.join(named)}."


def conditions_words(recording: Recording) -> Iterator[str]:
    """Describe the replayed conditions of the recorded jobs beside their arrivals."""
    for position in range(len(recording.slots)):
        curve = recording.curve(position)
        if curve.varies:
            rows = recording.application == position
            mean = mean_slots(curve, recording.arrival_ms[rows], recording.end_ms[rows])
            yield (
                f"Slots varied from {curve.count.min():,} to {curve.most:,}; {mean:,.0f} on "
                "average while jobs ran."
            )
    followers = int((recording.followed != NONE).sum())
    if followers > 0:
        yield (
            f"{counted(followers, 'job')} came after another had ended, as from a client that "
            "waits: replayed with the recorded pause."
        )


def verdict(report: ReplayReport) -> str:
    """One sentence on how far to trust the simulator on these logs.

    By the larger of median error and mean bias: few jobs that are far off move only the latter.
    """
    fidelity = report.fidelity("all")
    if fidelity is None:
        return ""
    words = (
        f"The replay is {fidelity.median_error_percent:.1f} % off in the median, "
        f"{fidelity.bias_percent:+.1f} % on average"
    )
    if not fidelity.above(TRUSTED_PERCENT):
        is_whole = report.recording.summary.parts_missing == 0
        but = "" if is_whole else ", but parts of the logs are missing, and jobs with them"
        return f"{words}: its figures can be relied on{but}."
    is_useless = bool(fidelity.above(USELESS_PERCENT))
    bound_percent = USELESS_PERCENT if is_useless else TRUSTED_PERCENT
    above = fidelity.above(bound_percent)
    verb = "is" if len(above) == 1 else "are"
    words += f". The {' and the '.join(above)} {verb} above {bound_percent:.0f} %"
    if not is_useless:
        return f"{words}: take smaller differences between policies for nothing."
    words += ": the simulator misses something that matters here."
    summary = report.recording.summary
    special = {
        "with executors of their own, by a resource profile": summary.stages_own_executors,
        "whose tasks take several slots": summary.stages_wide,
        "whose tasks start all at once (barrier)": summary.stages_barrier,
    }
    stages = ", ".join(f"{counted(n, 'stage')} {what}" for what, n in special.items() if n > 0)
    if stages:
        return (
            f"{words} A likely cause: {stages}. Spark counts each resource by itself, and offers "
            "the executors of a cluster to a barrier stage once a second; here a task takes slots."
        )
    if POOLS in report.policies and report.recording.given_pools is None:
        return (
            f"{words} If the application has an allocation file (weights, minShares), give it by "
            "--pools."
        )
    return f"{words} Look at the worst jobs, and try --policy or --group-by."
