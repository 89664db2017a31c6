"""Caveats of a what-if."""

from __future__ import annotations

from collections.abc import Iterator

from decima.whatif import load
from decima.whatif.advice import best_policy, can_be_trusted
from decima.whatif.closed_loop import MOSTLY
from decima.whatif.replay import ReplayReport
from decima.whatif.replay.recording import ORDERS
from decima.whatif.replay.report import TRUSTED_PERCENT
from decima.whatif.study import WhatIf
from spark_sim import Protocol
from spark_sim.tables import NONE
from traces.files.names import counted
from traces.spark_log import ImportSummary
from traces.spark_log.names import shared_words

FEW_JOBS = 50
_P95_JOBS = 20


def caveats(found: WhatIf, check: ReplayReport) -> Iterator[str]:
    """Yield the reasons to doubt the findings on this recording."""
    yield from _of_the_replay(found, check)
    yield from _of_the_recording(found)
    if can_be_trusted(check):
        yield from _of_the_policy(found)
    yield from _of_the_settings(found)


def _of_the_replay(found: WhatIf, check: ReplayReport) -> Iterator[str]:
    fidelity = check.fidelity("all")
    if fidelity is not None and fidelity.above(TRUSTED_PERCENT):
        yield (
            f"The replay itself is {fidelity.median_error_percent:.0f} % off the recorded "
            f"durations (median), {fidelity.bias_percent:+.0f} % on average: differences of that "
            "size mean little. `decima replay` names the jobs."
        )
    if found.settings.protocol == Protocol.EXECUTORS.label:
        yield (
            "The replay was checked in shared sessions, as recorded, but not for executors that "
            f"move between applications. One takes {found.settings.moving_delay_s:g} s "
            f"to start in another application and {found.settings.warmup_delay_s:g} s longer for "
            "its first task there: assumptions, not measured in this log."
        )


def _of_the_recording(found: WhatIf) -> Iterator[str]:
    recording = found.recording
    yield from of_the_logs(recording.summary)
    if found.has_repeats:
        yield (
            f"The {found.settings.draws} draws of task durations are identical, since all tasks of "
            "a stage took equally long: with recorded arrivals they are evidence of one run, and "
            "there is no interval."
        )
    jobs, missing = len(recording.trace.jobs), load.unfinished(recording)
    if missing > 0:
        yield (
            f"{counted(missing, 'job')} had not ended when a log did and had to be left out. If "
            "it was cut while jobs queued, those that waited longest are missing from all figures."
        )
    if jobs < FEW_JOBS:
        tail = ", and the p95 is in effect the slowest job" if jobs <= _P95_JOBS else ""
        verb = "is" if jobs == 1 else "are"
        yield (
            f"{counted(jobs, 'job')} {verb} few: one long job moves the averages{tail}. "
            "Record for longer."
        )
    if found.settings.slots_vary:
        yield (
            "Slots come and go as recorded, whatever the policy and the load: an allocation that "
            "follows the load would act otherwise. --executors N takes a fixed number, "
            "--allocation log simulates dynamic allocation."
        )
    elif load.varying_slots(recording) is not None:
        yield (
            "The recorded slots came and went; here all of them are there from the first job to "
            "the last."
        )
    waiting = load.waiting_share(recording)
    if waiting > MOSTLY and (recording.followed == NONE).mean() > 1 - MOSTLY:
        yield (
            f"{100 * waiting:.0f} % of the jobs came right after another had ended, as from "
            "clients that wait for their jobs. Those that are not replayed so come at the recorded "
            "times: with fewer slots they pile up, where the clients would wait."
        )


def of_the_logs(summary: ImportSummary) -> Iterator[str]:
    """Yield what the logs themselves lack."""
    if summary.parts_missing > 0:
        verb = "is" if summary.parts_missing == 1 else "are"
        yield (
            f"{counted(summary.parts_missing, 'part')} of the recorded logs {verb} missing: jobs "
            "that began or ended there are in no figure, and the slots that they held seem free."
        )
    if summary.slots_inferred > 0:
        whose = counted(summary.slots_inferred, "application")
        yield (
            f"The slots of {whose} had to be inferred from tasks that overlapped, since the log "
            "lacks the cores of an executor: they may be too many, as ends are stamped late, or "
            "too few. If you know them, give --executors."
        )


def _of_the_policy(found: WhatIf) -> Iterator[str]:
    best = best_policy(found)
    if best is not None and best not in ORDERS and found.settings.estimates == "exact":
        yield (
            f"{best} knows here how long tasks take. On a live session it knows that of queries "
            "in its priors, of others only as they run. In this recording "
            f"{100 * load.known_share(found.recording):.0f} % of the jobs are further runs of a "
            "query before them; --estimates none shows what it does where nothing is known."
        )
        shared = shared_words(found.recording.trace)
        if shared is not None:
            yield shared


def _of_the_settings(found: WhatIf) -> Iterator[str]:
    recording, settings = found.recording, found.settings
    if max(found.sizes) > load.recorded_slots(recording):
        yield (
            "On more slots than recorded, tasks take as long as recorded: a log shows neither what "
            "sharing memory, disk and network costs nor smaller tasks."
        )
    if settings.protocol == Protocol.SESSION.label and len(recording.slots) > 1:
        yield (
            f"{len(recording.slots)} applications are treated as one session that shares all "
            + ("slots, which they did not." if load.are_pooled(recording) else "slots.")
        )
