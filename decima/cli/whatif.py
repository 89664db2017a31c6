"""`decima whatif`: other policies and numbers of executors for recorded jobs."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console

from decima.cli.console import progress_bar, stdout, wrapped
from decima.cli.logs import Logs, log_arguments
from decima.cli.options import (
    ESTIMATES_HELP,
    GROUP_BY,
    JSON,
    REPORT,
    config_options,
    load_models,
    parse_names,
    refuse_given,
    write_report,
)
from decima.cli.replay import ALLOCATION, POOLS
from decima.cli.whatif_each import whatif_each
from decima.cli.workers import Where, open_pool, worker_options
from decima.rl.option_types import POLICIES, Number, Whole, WordOrWhole
from decima.rl.statistics import method
from decima.rl.tables import table_of
from decima.whatif import (
    ApplicationsSettings,
    ApplicationsWhatIf,
    WhatIf,
    WhatIfSettings,
    applications_what_if,
    what_if,
)
from decima.whatif.advice import Advised, advised, bounded_lines, caveats, facts, findings, headline
from decima.whatif.applications.workload import check_applications, cluster_slots
from decima.whatif.bounds import MAX_BOUND, check_max_slots, parse_max_slots
from decima.whatif.budget import (
    Budget,
    Terms,
    budget,
    budget_table,
    is_assumption_trusted,
    most_runs,
)
from decima.whatif.each import Ask
from decima.whatif.replay import Recording, ReplayReport, ReplaySettings, read_recording
from decima.whatif.replay import replay as run_replay
from decima.whatif.replay.check import parts_json
from decima.whatif.replay.demands import Demands
from decima.whatif.replay.losses import Losses, losses
from decima.whatif.replay.pools import Pools
from decima.whatif.replay.report import can_be_trusted, parts_table, parts_words, verdict
from decima.whatif.report import (
    allocation_table,
    applications_json,
    summary_table,
    to_json,
    tuned_lines,
)
from decima.whatif.settings import CHECK_DRAWS, OWN_WAYS, Sharing
from decima.whatif.study import run_ways, total_runs
from decima.whatif.submission import (
    HEADINGS,
    TOGETHER,
    Limit,
    NotWaitingError,
    Rules,
    Submission,
    hint,
    policies_of,
    submission,
)
from decima.whatif.task_slots import demands_effect
from spark_sim import Protocol
from spark_sim.cluster import MAX_EXECUTORS
from spark_sim.compiled.progress import announce
from traces.files.names import counted
from traces.files.numbers import MAX_TIME_MS
from traces.files.writing import write_json
from traces.numbers import MS_PER_S
from traces.spark_log import GroupBy
from traces.spark_log.events import MAX_CORES

_MOST_MONEY = 1e9
_EXPLAINED_JOBS = 10  # whose time is divided
_DEFAULT = WhatIfSettings(executors=1)
_OF_ONE_SESSION = (
    "allocation", "protocol", "sequences", "price", "deadline", "submit", "task_cpus", "gpus",
    "max_slots", "max_jobs",
)  # fmt: skip
_OF_ONE_STUDY = (
    "executors", "protocol", "policies", "allocation", "is_of_applications", "moving_delay_s",
    "price", "deadline", "submit", "task_cpus", "gpus", "max_slots", "max_jobs",
    "no_driver_times", "explain",
)  # fmt: skip


@click.command()
@log_arguments
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
@click.option(
    "--max-slots",
    multiple=True,
    callback=lambda _context, _option, texts: parse_max_slots(texts),
    metavar="pool.NAME=N",
    help="What a cap of a pool would change, as spark.decima.maxSlots.pool.NAME; may be repeated.",
)
@click.option(
    "--max-jobs",
    type=Whole(1, MAX_BOUND),
    help="What a bound on jobs at once would change, as spark.decima.maxJobs.",
)
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
@click.option(
    "--price",
    type=Number(0.0, _MOST_MONEY, above=True),
    help="Of an executor-hour: finds the fewest executors, and the cheapest settings of dynamic "
    "allocation, that keep the p95, and their cost.",
)
@click.option(
    "--deadline",
    type=Number(0.0, MAX_TIME_MS / MS_PER_S, above=True),
    help="With --price: seconds that the p95 must keep (default: the p95 of the baseline).",
)
@click.option(
    "--submit",
    type=WordOrWhole(TOGETHER, 1),
    metavar=f"{TOGETHER}|N",
    help="Submit the jobs of a driver that waits together, or at most N at once; those that need "
    "another one wait for it.",
)
@click.option("--task-cpus", type=Whole(1, MAX_CORES), help="As if each task took so many cores.")
@click.option(
    "--gpus",
    type=Whole(1, MAX_CORES),
    help="As if each executor had so many GPUs, for tasks that ask for them.",
)
@click.option(
    "--each",
    is_flag=True,
    help="Look at each application of many by itself, and study the ten that would gain most.",
)
@click.option("--no-driver-times", is_flag=True, help="As if the driver took no time.")
@worker_options("Processes.")
@click.option(
    "--explain", is_flag=True, help="Print all: reasons to doubt, who gains, where the time went."
)
@JSON
@REPORT
def whatif(
    logs: Logs,
    executors: int | None,
    protocol: Sharing,
    policies: str | None,
    allocation: dict[str, str] | None,
    pools: Pools | None,
    max_slots: dict[str, int],
    max_jobs: int | None,
    group_by: str,
    is_of_applications: bool,
    moving_delay_s: float | None,
    price: float | None,
    deadline: float | None,
    submit: Limit | None,
    task_cpus: int | None,
    gpus: int | None,
    each: bool,
    no_driver_times: bool,
    where: Where,
    explain: bool,
    json_path: Path | None,
    page: Path | None,
    **options: Any,
) -> None:
    """Simulate other schedulers and other numbers of executors for the jobs of Spark event LOGS.

    LOGS are files, rolled logs, zip archives, or folders of them, or where they are: a History
    Server (http://HOST:18080), s3://, hdfs://, gs://. Replays the recorded jobs under
    several policies and on half and twice the executors, and recommends the largest improvement.
    """
    if each:
        refuse_given("--each", *_OF_ONE_STUDY)
        ask = Ask(logs.fetch(), GroupBy(group_by), pools, options)
        whatif_each(ask, where, json_path, page, logs.title)
        return
    if is_of_applications:
        refuse_given("--applications", *_OF_ONE_SESSION)
    elif moving_delay_s is not None:
        raise click.UsageError("--moving-delay is for --applications")
    demands = _demands(price, deadline, task_cpus, gpus)
    recording = read_recording(
        logs.fetch(), group_by=GroupBy(group_by), pools=pools, demands=demands
    )
    check_max_slots(recording, max_slots)
    options |= {"max_slots": max_slots or None, "max_jobs": max_jobs}
    names = None if policies is None else parse_names(policies)
    settings: WhatIfSettings | ApplicationsSettings
    if is_of_applications:
        check_applications(recording)
        settings = ApplicationsSettings(
            cluster_slots(recording) if executors is None else executors,
            ApplicationsSettings.policies if names is None else names,
            moving_delay_s=moving_delay_s,
            **{label: options[label] for label in ("estimates", "draws", "seed")},
        )
        load_models(settings.policies, Protocol.EXECUTORS)
    else:
        settings = _session_settings(recording, executors, names, protocol, allocation, options)
        if submit is not None:
            _check_submission(recording, protocol)
        load_models(settings.policies, Protocol.parse(settings.protocol))
    terms = None if price is None else Terms(price, deadline)
    effect = None
    if demands is not None and isinstance(settings, WhatIfSettings):
        effect = demands_effect(recording, demands, settings, driver_times=not no_driver_times)
    answers = _answered(recording, settings, terms, submit, not no_driver_times, where)
    study, check, lost, _, planned, submitted = answers
    if effect is not None:
        wrapped(stdout(markup=False), effect.words())
    if explain:
        _print_all(answers)
    else:
        _print(answers)
    if json_path is not None:
        if isinstance(study, WhatIf):
            content = {**to_json(study), "replay": check.to_json()["fidelity"]}
        else:
            content = applications_json(study)
        content["parts_s"] = [parts_json(recording, row) for row in range(len(recording.driver))]
        content["advised"] = [change._asdict() for change in _all_advised(answers)]
        content["budget"] = None if planned is None else planned.to_json()
        content["demands"] = None if effect is None else effect.to_json()
        content["losses"] = None if lost is None else lost.to_json()
        content["submission"] = None if submitted is None else submitted.to_json()
        write_json(json_path, content)
    if page is not None:
        from decima.report.whatif import whatif_sections

        effects = () if effect is None else (effect.words(),)
        title = counted(len(recording.slots), "application") if is_of_applications else logs.title
        write_report(
            page,
            whatif_sections(study, check, lost, planned, submitted, effects),
            f"What if: {title}",
        )


def _demands(
    price: float | None, deadline: float | None, task_cpus: int | None, gpus: int | None
) -> Demands | None:
    """Refuse options that contradict these; return other demands, None for the recorded ones."""
    if price is not None:
        refuse_given("--price", "max_slots", "max_jobs")
    elif deadline is not None:
        raise click.UsageError("--deadline needs --price")
    for option, number in (("--task-cpus", task_cpus), ("--gpus", gpus)):
        if number is not None:
            refuse_given(option, "executors", "protocol", "price")
    return None if task_cpus is None and gpus is None else Demands(task_cpus, gpus)


def _session_settings(
    recording: Recording,
    executors: int | None,
    policies: tuple[str, ...] | None,
    protocol: Sharing,
    allocation: dict[str, str] | None,
    options: dict[str, Any],
) -> WhatIfSettings:
    """Settings of one session, or of an application for each job, that fit the recording."""
    is_session = protocol == Protocol.SESSION.label
    if (neediest := recording.neediest()) is not None:
        if not is_session:
            raise click.UsageError(
                f"{neediest.words()}, which only --protocol {Protocol.SESSION.label} simulates"
            )
        if executors is not None and executors < neediest.slots:
            raise click.UsageError(f"--executors {executors} is impossible: {neediest.words()}")
    if executors is None and allocation is not None and len(recording.slots) > 1:
        raise click.UsageError("--allocation simulates one application: give its log alone")
    return WhatIfSettings.fitting(recording, executors, policies, protocol, allocation, **options)


def _check_submission(recording: Recording, protocol: Sharing) -> None:
    if protocol != Protocol.SESSION.label:
        raise click.UsageError(f"--submit needs --protocol {Protocol.SESSION.label}")
    if len(recording.slots) > 1:
        raise click.UsageError("--submit is about one application: give its log alone")
    try:
        Rules.of(recording)
    except NotWaitingError as error:
        raise click.UsageError(f"--submit changes nothing: {error}") from error


class _Answers(NamedTuple):
    """All that is simulated."""

    study: WhatIf | ApplicationsWhatIf
    check: ReplayReport
    lost: Losses | None
    terms: Terms | None
    planned: Budget | None
    submitted: Submission | None


def _answered(
    recording: Recording,
    settings: WhatIfSettings | ApplicationsSettings,
    terms: Terms | None,
    limit: Limit | None,
    driver_times: bool,
    where: Where,
) -> _Answers:
    announce()
    if isinstance(settings, WhatIfSettings):
        label, runs = "replay check", total_runs(settings)
        runs += 2 * CHECK_DRAWS * len(recording.slots)
        if terms is not None:
            runs += most_runs(settings)
        if limit is not None:
            runs += (1 + len(policies_of(settings))) * settings.draws
    else:
        label, runs = "applications", settings.draws * len(run_ways(settings))
    with open_pool(where, "decima whatif") as pool, progress_bar(label, runs) as (bar, task):

        def progress(words: str, finished: int) -> None:
            bar.update(task, advance=finished, description=words)

        if isinstance(settings, ApplicationsSettings):
            divided = applications_what_if(
                recording, settings, driver_times=driver_times, pool=pool, progress=progress
            )
            return _Answers(divided, divided.check(), None, None, None, None)
        as_recorded = ReplaySettings(draws=CHECK_DRAWS, seed=settings.seed)
        check = run_replay(
            recording.before or recording,
            as_recorded,
            progress=lambda done, _: bar.update(task, completed=done),
            pool=pool,
        )
        study = what_if(
            recording, settings, driver_times=driver_times, pool=pool, progress=progress
        )
        lost = losses(check, as_recorded, pool)
        planned = None
        if terms is not None and can_be_trusted(check) and is_assumption_trusted(study):
            planned = budget(study, terms, pool=pool, progress=progress)
        submitted = None
        if limit is not None:
            submitted = submission(study, check, limit, pool=pool, progress=progress)
        return _Answers(study, check, lost, terms, planned, submitted)


def _all_advised(answers: _Answers) -> list[Advised]:
    changes = list(advised(answers.study, answers.check))
    if answers.planned is not None and (words := answers.planned.words()) is not None:
        changes.append(Advised(words, answers.planned.files()))
    if answers.submitted is not None and (change := answers.submitted.advised()) is not None:
        changes.append(Advised(*change))
    return changes


def _print(answers: _Answers) -> None:
    console = stdout(markup=False)
    study, check = answers.study, answers.check
    recording = study.recording
    if isinstance(study, WhatIf) and study.bounded is not None and can_be_trusted(check):
        wrapped(console, *bounded_lines(study))
        console.print()
    if answers.submitted is not None:
        _print_submission(console, answers.submitted)
    wrapped(console, headline(study, check), verdict(check), parts_words(recording))
    wrapped(console, *recording.summary.left_out())
    console.print()
    console.print(summary_table(study))
    _print_hint(console, answers)
    _print_advised(console, answers)
    console.print()
    doubts = counted(sum(1 for _ in caveats(study, check)), "reason")
    wrapped(
        console,
        f"--explain: {doubts} to doubt these figures, who gains, what was recorded, and where the "
        "time went.",
    )


def _print_submission(console: Console, answer: Submission) -> None:
    """Print what submitting the jobs otherwise would give, and what that takes for granted."""
    wrapped(console, answer.headline())
    console.print()
    if answer.is_trusted:
        console.print(table_of(HEADINGS, answer.rows()))
        wrapped(console, answer.kept_words(), answer.assumed_words())
        console.print()


def _print_hint(console: Console, answers: _Answers) -> None:
    study = answers.study
    if isinstance(study, ApplicationsWhatIf) or answers.submitted is not None:
        return
    if (words := hint(study)) is not None:
        console.print()
        wrapped(console, words)


def _print_advised(console: Console, answers: _Answers) -> None:
    if answers.planned is not None:
        console.print()
        wrapped(console, answers.planned.heading())
        console.print(budget_table(answers.planned))
        if (caveat := answers.planned.caveat()) is not None:
            wrapped(console, caveat)
    elif answers.terms is not None:
        whose = "replay" if not can_be_trusted(answers.check) else "model of dynamic allocation"
        console.print(f"\nNo cost estimate: the error of the {whose} is too large.")
    printed = [headline(answers.study, answers.check)]
    if answers.submitted is not None:
        printed.append(answers.submitted.headline())
    for words, files in _all_advised(answers):
        console.print()
        if words not in printed:
            wrapped(console, words)
        for place, lines in files.items():
            wrapped(console, f"{place}:")
            console.print(textwrap.indent(lines, "    "), soft_wrap=True)


def _print_all(answers: _Answers) -> None:
    study, check, lost, *_ = answers
    console, settings = stdout(markup=False), study.settings
    wrapped(console, *facts(study), verdict(check))
    first, *others = findings(study, check)
    console.print()
    wrapped(console, first)
    console.print()
    console.print(summary_table(study))
    console.print()
    wrapped(console, *others, bullet="- ")
    wrapped(console, *(f"But: {words}" for words in caveats(study, check)), bullet="- ")
    drawn = "none: identical" if study.has_repeats else method(settings.draws)
    if isinstance(study, WhatIf):
        if study.allocations:
            console.print("\nDynamic allocation, recorded arrivals; slot time is held, busy or not")
            console.print(allocation_table(study))
        console.print()
        sizes = study.settings
        how = f"Tuned on {sizes.training} other resampled sequences, checked on {sizes.held_back}"
        wrapped(console, *(f"{how} more: {line}" for line in tuned_lines(study)))
        second = (
            f"resampled: {counted(sizes.sequences, 'sequence')} of arrivals "
            f"({method(sizes.sequences)}). Other numbers of slots, against the same policy on "
            f"{sizes.executors}: {counted(sizes.shared_draws, 'draw')}. "
            f"{sizes.protocol} protocol."
        )
    else:
        console.print()
        second = "over jobs: stretches of them, resampled."
    if settings.estimates != "exact":
        second += f" Estimates of task durations: {settings.estimates}."
    wrapped(
        console,
        f"JCT: job completion time; negative differences are better. [95 % intervals]: over "
        f"{counted(settings.draws, 'draw')} of task durations ({drawn}), {second}",
    )
    if study.recording.breakdowns:
        console.print("\nWhere the time went")
        console.print(parts_table(study.recording, _EXPLAINED_JOBS))
    if lost is not None:
        wrapped(console, lost.words())
    _print_hint(console, answers)
    if answers.submitted is not None:
        console.print()
        _print_submission(console, answers.submitted)
        wrapped(console, *answers.submitted.dependency_words(), bullet="- ")
    _print_advised(console, answers)
