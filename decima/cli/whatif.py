"""`decima whatif`: other policies and numbers of executors for recorded jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from decima.cli.console import bullets, progress_bar, stdout, wrapped
from decima.cli.options import (
    ESTIMATES_HELP,
    GROUP_BY,
    JSON,
    REPORT,
    check_models,
    config_options,
    parse_names,
    refuse_given,
    write_report,
)
from decima.cli.replay import ALLOCATION, LOGS, POOLS
from decima.cli.whatif_applications import Answering, answer_applications
from decima.cli.workers import Where, open_pool, worker_options
from decima.rl.option_types import POLICIES, Whole
from decima.rl.statistics import method
from decima.whatif import WhatIf, WhatIfSettings, load, what_if
from decima.whatif.advice import findings
from decima.whatif.allocation_advice import allocation_table
from decima.whatif.applications import ApplicationsSettings
from decima.whatif.applications.settings import OWN_WAYS
from decima.whatif.caveats import caveats
from decima.whatif.replay import Recording, ReplayReport, ReplaySettings, read_recording
from decima.whatif.replay import replay as run_replay
from decima.whatif.replay.pools import Pools
from decima.whatif.replay.recording import FAIR
from decima.whatif.replay.recording import POOLS as POOLED
from decima.whatif.replay.report import conditions_words, verdict
from decima.whatif.report import (
    lengths_table,
    policies_table,
    seconds,
    sizes_table,
    to_json,
    tuned_lines,
)
from decima.whatif.settings import Sharing
from decima.whatif.study import total_runs
from spark_sim import Protocol
from spark_sim.cluster import MAX_EXECUTORS
from spark_sim.compiled.progress import announce
from traces.files.names import counted
from traces.files.writing import write_json
from traces.spark_log import GroupBy

_CHECK_DRAWS = 5
_DEFAULT = WhatIfSettings(executors=1)


@click.command()
@LOGS
@click.option(
    "--executors",
    type=Whole(1, MAX_EXECUTORS),
    help="Task slots: executors x cores each, for one core a task (default: as recorded).",
)
@config_options(
    WhatIfSettings,
    protocol="Jobs share the slots of one session, or each is an application with its own "
    "executors.",
)
@click.option(
    "--policies",
    type=POLICIES,
    help="Separated by commas; the first is the reference (default: the recorded one, then "
    f"others of {', '.join(_DEFAULT.policies)}).",
)
@ALLOCATION
@POOLS
@GROUP_BY
@config_options(
    WhatIfSettings,
    estimates=ESTIMATES_HELP,
    draws="Repetitions of the recording.",
    sequences="Resampled arrival sequences.",
    seed="",
)
@click.option(
    "--applications",
    "is_of_applications",
    is_flag=True,
    help="Divide the executors of one cluster among the applications of the LOGS; --policies: "
    f"{', '.join(OWN_WAYS)}, or a coordinator's.",
)
@config_options(
    ApplicationsSettings,
    moving_delay_s="With --applications: seconds until an executor comes (default: as measured).",
)
@click.option("--no-driver-times", is_flag=True, help="As if the driver took no time.")
@worker_options("Processes.")
@JSON
@REPORT
def whatif(
    logs: tuple[Path, ...],
    executors: int | None,
    protocol: Sharing,
    policies: str | None,
    allocation: dict[str, str] | None,
    pools: Pools | None,
    group_by: str,
    is_of_applications: bool,
    moving_delay_s: float | None,
    no_driver_times: bool,
    where: Where,
    json_path: Path | None,
    page: Path | None,
    **options: Any,
) -> None:
    """Simulate other schedulers and other numbers of executors for the jobs of Spark event LOGS.

    LOGS are files, rolled logs, zip archives, or folders of them. Replays the recorded jobs under
    several policies and on half and twice the executors, and recommends the largest improvement.
    """
    if is_of_applications:
        refuse_given("--applications", "allocation", "protocol", "sequences")
    elif moving_delay_s is not None:
        raise click.UsageError("--moving-delay is for --applications")
    recording = read_recording(logs, group_by=GroupBy(group_by), pools=pools)
    if is_of_applications:
        answer_applications(
            recording,
            executors,
            None if policies is None else parse_names(policies),
            {label: options[label] for label in ("estimates", "draws", "seed")},
            Answering(moving_delay_s, not no_driver_times, where, json_path, page),
        )
        return
    neediest = recording.neediest()
    if neediest is not None and protocol != Protocol.SESSION.label:
        raise click.UsageError(
            f"{neediest.words()}, which only --protocol {Protocol.SESSION.label} simulates"
        )
    if neediest is not None and executors is not None and executors < neediest.slots:
        raise click.UsageError(f"--executors {executors} is impossible: {neediest.words()}")
    settings = WhatIfSettings(
        _most_slots(recording, allocation) if executors is None else executors,
        _policies(recording, policies, protocol),
        protocol,
        least_slots=1 if neediest is None else neediest.slots,
        allocation=allocation,
        slots_vary=executors is None
        and allocation is None
        and protocol == Protocol.SESSION.label
        and load.varying_slots(recording) is not None,
        **options,
    )
    check_models(settings.policies)
    found, check = _studied(recording, settings, not no_driver_times, where)
    _print(found, check)
    if json_path is not None:
        write_json(json_path, {**to_json(found), "replay": check.to_json()["fidelity"]})
    if page is not None:
        from decima.report.whatif import whatif_sections

        write_report(page, whatif_sections(found, check, _facts(found)), f"What if: {logs[0].name}")


def _studied(
    recording: Recording, settings: WhatIfSettings, driver_times: bool, where: Where
) -> tuple[WhatIf, ReplayReport]:
    """Simulate the recording as it was, and all that `settings` ask for."""
    announce()
    check_runs = 2 * _CHECK_DRAWS * len(recording.slots)
    with (
        open_pool(where, "decima whatif") as pool,
        progress_bar("replay check", check_runs + total_runs(settings)) as (bar, task),
    ):
        check = run_replay(
            recording,
            ReplaySettings(draws=_CHECK_DRAWS, seed=settings.seed),
            progress=lambda done, _: bar.update(task, completed=done),
            pool=pool,
        )
        found = what_if(
            recording,
            settings,
            driver_times=driver_times,
            pool=pool,
            progress=lambda words, runs: bar.update(task, advance=runs, description=words),
        )
    return found, check


def _most_slots(recording: Recording, changes: dict[str, str] | None) -> int:
    if changes is None:
        return load.recorded_slots(recording)
    if len(recording.slots) > 1:
        raise click.UsageError("--allocation simulates one application: give its log alone")
    found = recording.allocation(0, changes)
    return load.recorded_slots(recording) if found is None else found.slots


def _policies(recording: Recording, names: str | None, protocol: Sharing) -> tuple[str, ...]:
    if names is not None:
        return parse_names(names)
    reference = load.recorded_reference(recording)
    if protocol != Protocol.SESSION.label and reference == POOLED:
        reference = FAIR
    return (reference, *(name for name in _DEFAULT.policies if name != reference))


def _print(found: WhatIf, check: ReplayReport) -> None:
    console = stdout()
    for line in _facts(found):
        wrapped(console, line)
    wrapped(console, verdict(check))
    console.print("\nIn short", style="bold")
    bullets(console, findings(found, check))
    bullets(console, (f"But: {words}" for words in caveats(found, check)))
    settings = found.settings
    where = counted(settings.executors, "slot")
    console.print(f"\nRecorded arrivals, {where}, mean of {settings.draws} draws of task durations")
    console.print(policies_table(found, "recorded"))
    console.print(f"\nResampled arrivals, {where}, mean of {settings.sequences} sequences")
    console.print(policies_table(found, "resampled"))
    console.print("\nBy length, recorded arrivals (thirds of the jobs, by their time alone)")
    console.print(lengths_table(found))
    console.print(
        f"\nBy number of slots, recorded arrivals, mean of the first {settings.shared_draws} draws"
    )
    console.print(sizes_table(found))
    if found.allocations:
        console.print("\nDynamic allocation, recorded arrivals; slot time is held, busy or not")
        console.print(allocation_table(found))
    console.print()
    is_estimated = settings.estimates != "exact"
    for line in tuned_lines(found):
        wrapped(
            console,
            f"Tuned on {settings.training} other resampled sequences, checked on "
            f"{settings.held_back} more: {line}",
        )
    wrapped(
        console,
        f"JCT: job completion time. [95 % intervals]: above over draws "
        f"({'none, they are identical' if found.has_repeats else method(settings.draws)}), below "
        f"over sequences ({method(settings.sequences)}). "
        f"{settings.protocol} protocol. Negative differences are better."
        + (f" Estimates of task durations: {settings.estimates}." if is_estimated else ""),
    )


def _facts(found: WhatIf) -> list[str]:
    recording = found.recording
    trace = recording.trace
    tasks = sum(job.num_tasks for job in trace.jobs)
    stages = sum(len(job.stages) for job in trace.jobs)
    busy = load.offered_load(recording, found.settings.executors)
    return [
        f"{counted(len(trace.jobs), 'job')} ({counted(stages, 'stage')}, "
        f"{counted(tasks, 'task')}) of {counted(len(recording.slots), 'application')}, recorded "
        f"over {_span(load.span_s(recording))} on "
        f"{counted(load.recorded_slots(recording), 'slot')}; their tasks keep "
        f"{counted(found.settings.executors, 'slot')} busy {100 * busy:.0f} % of that "
        f"time. As recorded, a job took {seconds(load.recorded_avg_s(recording))} on average.",
        *conditions_words(recording),
        *recording.summary.left_out(),
    ]


def _span(span_s: float) -> str:
    if span_s >= 2 * 3600:
        return f"{span_s / 3600:,.1f} h"
    return f"{span_s / 60:,.1f} min" if span_s >= 120 else f"{span_s:,.1f} s"
