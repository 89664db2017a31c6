"""One policy for every cluster: sizes x loads x protocols, on sequences that no training saw.

    python -m benchmarks.cells [--policies strict_fair,tuned_srw,es_rule] [--tuned FILE]...
    python -m benchmarks.cells --trace tpch --trace random-dag --executors 50 --slots 16,64

A line a cell: average JCT of the first policy, and the paired differences of the others to it with
95 % bootstrap intervals over sequences. A cell is a number of executors that move, or of slots of
one session, with three loads (work that arrives over what the executors could do) and a batch of 20
jobs. The last lines say in how many cells a policy is above the first one (the interval excludes
zero), where it is worst, and the geometric mean of its ratios over the cells.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.quality import percent
from decima import EvaluationConfig, evaluate
from decima.cli.options import read_all_tuned
from decima.evaluation.report import Report
from decima.evaluation.settings_file import gap_at
from parallel.local import LocalCrew

LOADS = (0.7, 0.9, 1.1)
FIRST_SEED = 7_000
"""other arrivals and durations than the seeds 0, 1, ... of everything else"""

Sizes = tuple[list[int], list[int]]
"""numbers of executors that move, and of slots of a session"""


class Cell(NamedTuple):
    """One line of the table."""

    label: str
    config: EvaluationConfig


def cells_of(trace: str, sizes: Sizes, jobs: int) -> Iterator[Cell]:
    """All cells of a trace."""
    for protocol, numbers in zip(("executors", "session"), sizes, strict=True):
        for number in numbers:
            base = EvaluationConfig(
                trace=trace, protocol=protocol, executors=number, jobs=jobs, seed=FIRST_SEED
            )
            place = f"{base.trace} {number} {'slots' if protocol == 'session' else protocol}"
            for load in LOADS:
                gap_s = gap_at(trace, number, load)
                yield Cell(f"{place}, load {load:g}", replace(base, interarrival_s=gap_s))
            yield Cell(f"{place}, batch of 20", replace(base, arrivals="batch", jobs=20))


def line_of(label: str, report: Report) -> str:
    """The cell in one line."""
    first, *others = report.config.policies
    words = [f"{label:34} {first} {report.reference.avg_jct_s.mean():7.1f} s"]
    words += [f"{name} {percent(report.difference(name))}" for name in others]
    return "  ".join(words)


def print_summary(reports: dict[str, Report]) -> None:
    """Over all cells, a line a policy."""
    first, *others = next(iter(reports.values())).config.policies
    for name in others:
        found = {label: report.difference(name) for label, report in reports.items()}
        worst = max(found, key=lambda label: found[label].mean)
        above = sum(1 for one in found.values() if one.ci95 is not None and one.ci95[0] > 0)
        mean = np.exp(np.mean([np.log1p(one.mean / 100) for one in found.values()]))
        print(
            f"{name}: {100 * (mean - 1):+.1f} % against {first} on average over {len(found)} "
            f"cells, above it in {above}, worst {found[worst].mean:+.1f} % ({worst})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policies", default="strict_fair,tuned_srw,es_rule")
    parser.add_argument("--tuned", type=Path, action="append", default=[], help="of `decima tune`")
    parser.add_argument("--trace", action="append", help="may be repeated; default: tpch")
    parser.add_argument("--executors", default="10,25,50,100,200,500")
    parser.add_argument("--slots", default="8,16,32,64,128,256")
    parser.add_argument("--sequences", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    policies = tuple(arguments.policies.split(","))
    sizes = tuple([int(one) for one in text.split(",") if one]
                  for text in (arguments.executors, arguments.slots))  # fmt: skip
    tuned = read_all_tuned(tuple(arguments.tuned))
    reports: dict[str, Report] = {}
    with LocalCrew(arguments.workers) as crew:
        for trace in arguments.trace or ["tpch"]:
            for label, config in cells_of(trace, (sizes[0], sizes[1]), arguments.jobs):
                compared = replace(
                    config, policies=policies, parameters=tuned, sequences=arguments.sequences
                )
                reports[label] = evaluate(compared, crew=crew)
                print(line_of(label, reports[label]), flush=True)
    print_summary(reports)


if __name__ == "__main__":
    main()
