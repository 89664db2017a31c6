"""Simulate another scheduler on the jobs of Spark event logs.

This is `decima whatif` from Python, which can also change the recording: the second study submits
the same jobs several times as fast. Without LOGS the sample log of the package is read, four small
jobs that hardly wait for each other as they were recorded.

    python examples/what_if_on_a_log.py
    python examples/what_if_on_a_log.py LOGS... --speedup 2 --slots 16
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from decima.whatif import WhatIf, WhatIfSettings, what_if
from decima.whatif.advice import caveats, findings
from decima.whatif.load import recorded_reference, recorded_slots
from decima.whatif.replay import Recording, ReplayReport, ReplaySettings, read_recording, replay
from decima.whatif.replay.report import verdict
from traces import TraceError
from traces.catalog import write_sample_log

POLICIES = ("fifo", "spark_fair", "tuned_srw", "es_rule")


def main() -> None:
    given = arguments()
    try:
        recording = read(given.logs)
    except TraceError as error:
        sys.exit(f"error: {error}")
    check = replay(
        recording, ReplaySettings()
    )  # how well does the simulator repeat what was recorded?
    say(f"{len(recording.trace.jobs)} jobs on {recorded_slots(recording)} slots. {verdict(check)}")
    slots = given.slots or recorded_slots(recording)
    reference = recorded_reference(recording)
    policies = (reference, *(name for name in POLICIES if name != reference))
    settings = WhatIfSettings(slots, policies, draws=given.draws, sequences=given.sequences)
    show("As recorded", what_if(recording, settings), check)
    faster = submitted_faster(recording, given.speedup)
    show(f"Submitted {given.speedup:g} times as fast", what_if(faster, settings), check)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("logs", nargs="*", type=Path, help="event logs, or folders of them")
    parser.add_argument("--slots", type=int, help="default: as recorded")
    parser.add_argument("--speedup", type=float, default=10.0, help="of the submissions")
    parser.add_argument("--draws", type=int, default=10, help="of task durations")
    parser.add_argument("--sequences", type=int, default=20, help="of resampled arrivals")
    return parser.parse_args()


def read(logs: Sequence[Path]) -> Recording:
    """Read event logs, or the sample log (`decima traces sample-logs`) if there are none."""
    if logs:
        return read_recording(logs)
    with tempfile.TemporaryDirectory() as folder:
        return read_recording([write_sample_log(Path(folder))])


def submitted_faster(recording: Recording, speedup: float) -> Recording:
    """Return the recording with all gaps between submissions divided by `speedup`."""
    trace = recording.trace
    moved = {}
    for job, row in trace.metadata["recorded"].items():
        start_ms = row["start_ms"] / speedup
        end_ms = start_ms + row["end_ms"] - row["start_ms"]
        moved[job] = {**row, "start_ms": start_ms, "end_ms": end_ms}
    return replace(recording, trace=replace(trace, metadata={**trace.metadata, "recorded": moved}))


def show(title: str, study: WhatIf, check: ReplayReport) -> None:
    """Print the average JCT by policy and number of slots, then advice and caveats."""
    say(f"\n{title}: average job completion time in seconds, by number of slots")
    print(f"  {'policy':<14}" + "".join(f"{size:>8}" for size in study.sizes))
    for policy in study.settings.policies:
        averages = [study.shared_avg_s(size, policy).mean() for size in study.sizes]
        print(f"  {policy:<14}" + "".join(f"{avg_s:>8.2f}" for avg_s in averages))
    for line in findings(study, check):
        say(line, "- ")
    for line in caveats(study, check):
        say(f"But: {line}", "- ")


def say(words: str, bullet: str = "") -> None:
    print(textwrap.fill(words.lstrip("\n"), 100, initial_indent=bullet, subsequent_indent="  "))


if __name__ == "__main__":
    main()
