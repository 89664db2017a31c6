"""`decima whatif --applications`: other divisions of a cluster among recorded applications."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from decima.cli.console import bullets, progress_bar, stdout, wrapped
from decima.cli.options import check_models, write_report
from decima.cli.workers import Where, open_pool
from decima.rl.statistics import method
from decima.whatif.applications import (
    ApplicationsSettings,
    ApplicationsWhatIf,
    applications_what_if,
)
from decima.whatif.applications.advice import caveats, findings
from decima.whatif.applications.report import applications_table, facts, to_json, ways_table
from decima.whatif.applications.study import run_ways
from decima.whatif.applications.workload import check_applications, cluster_slots
from decima.whatif.replay import Recording
from decima.whatif.replay.report import verdict
from spark_sim.compiled.progress import announce
from traces.files.names import counted
from traces.files.writing import write_json


class Answering(NamedTuple):
    """Options beside those of the settings."""

    moving_delay_s: float | None
    driver_times: bool
    where: Where
    json_path: Path | None
    page: Path | None


def answer_applications(
    recording: Recording,
    slots: int | None,
    ways: tuple[str, ...] | None,
    options: Mapping[str, Any],
    how: Answering,
) -> None:
    """Simulate and print, and write what is asked for.

    Args:
        recording: of several applications.
        slots: of the cluster; None: as recorded.
        ways: to compare; None: the usual ones.
        options: fields of `ApplicationsSettings`.
        how: other options.
    """
    check_applications(recording)
    settings = ApplicationsSettings(
        cluster_slots(recording) if slots is None else slots,
        ApplicationsSettings.ways if ways is None else ways,
        moving_delay_s=how.moving_delay_s,
        **options,
    )
    check_models(settings.ways)
    announce()
    total = settings.draws * len(run_ways(settings))
    with (
        open_pool(how.where, "decima whatif") as pool,
        progress_bar("applications", total) as (bar, task),
    ):
        found = applications_what_if(
            recording,
            settings,
            driver_times=how.driver_times,
            pool=pool,
            progress=lambda words: bar.update(task, advance=1, description=words),
        )
    _print(found)
    if how.json_path is not None:
        write_json(how.json_path, to_json(found))
    if how.page is not None:
        from decima.report.applications import applications_section

        title = f"What if: {counted(len(recording.slots), 'application')}"
        write_report(how.page, [applications_section(found)], title)


def _print(found: ApplicationsWhatIf) -> None:
    console = stdout()
    for line in (*facts(found), verdict(found.check())):
        wrapped(console, line)
    console.print("\nIn short", style="bold")
    bullets(console, findings(found))
    bullets(console, (f"But: {words}" for words in caveats(found)))
    settings = found.settings
    where = counted(found.workload.executors, "executor")
    console.print(f"\n{where}, mean of {counted(settings.draws, 'draw')} of task durations")
    console.print(ways_table(found))
    console.print("\nAverage JCT by application; alone: with the whole cluster to itself")
    console.print(applications_table(found))
    console.print()
    wrapped(
        console,
        "JCT: job completion time. [95 % intervals] over draws "
        f"({'none, they are identical' if found.has_repeats else method(settings.draws)}). "
        "Negative differences are better.",
    )
