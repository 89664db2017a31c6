"""One policy for every cluster: sizes x loads x protocols, on sequences that no training saw.

    python -m benchmarks.cells [--policies tuned_srw,es_rule,decima] [--tuned FILE]...
    python -m benchmarks.cells --retune --store cells.json
    python -m benchmarks.cells --trace tpch --trace random-dag --executors 50 --slots 16,64

A line a cell: average JCT of strict fair, and the paired differences of the others to it with 95 %
bootstrap intervals over sequences. A cell is a number of executors that move, or of slots of one
session, with three loads (work that arrives over what the executors could do) and a batch of 20
jobs. ``--retune`` tunes the tunable heuristics on training sequences of each cell; `best tuned` is
the one that is best there. The last lines give, for each policy, the geometric mean of its ratios
over the cells, in how many it is above strict fair, or above the 95th percentile of strict fair's
JCT (the interval excludes zero), or by more than 1 % above the best tuned heuristic.

``--store`` keeps every sequence's figures. Called again, it plays what is missing: other policies,
other cells.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from decima import EvaluationConfig, evaluate
from decima.cli.options import read_all_tuned
from decima.evaluation.config import gap_at
from decima.registry import Parameters
from decima.rl.parallel.local import LocalPool
from decima.rl.parallel.pool import WorkerPool
from decima.rl.statistics import Estimate, difference_percent
from decima.training.tuning import tune
from traces.estimates import KINDS
from traces.files.writing import write_json
from traces.numbers import Float64

LOADS = (0.7, 0.9, 1.1)
FIRST_SEED = 7_000
"""other arrivals and durations than the seeds 0, 1, ... of everything else"""
REFERENCE, BEST_TUNED = "strict_fair", "best tuned"
TUNABLE = ("tuned_weighted_fair", "tuned_srw")
TUNING_SEQUENCES, HELD_BACK = 4, 8

Sizes = tuple[list[int], list[int]]
"""numbers of executors that move, and of slots of a session"""
Figures = dict[str, dict[str, list[float]]]
"""by policy: average and 95th percentile of the JCT in s, of each sequence"""


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
            where = f"{number} {'slots' if protocol == 'session' else protocol}"
            place = f"{Path(base.trace).stem} {where}"
            for load in LOADS:
                gap_s = gap_at(trace, number, load)
                yield Cell(f"{place}, load {load:g}", replace(base, interarrival_s=gap_s))
            yield Cell(f"{place}, batch of 20", replace(base, arrivals="batch", jobs=20))


def play(
    config: EvaluationConfig,
    names: Sequence[str],
    tuned: Mapping[str, Parameters],
    pool: WorkerPool,
) -> Figures:
    """Figures of policies in a cell, with parameters of those that were tuned."""
    if not names:
        return {}
    parameters = {name: tuned[name] for name in names if name in tuned}
    report = evaluate(replace(config, policies=tuple(names), parameters=parameters), pool=pool)
    return {
        name: {"avg_jct_s": result.avg_jct_s.tolist(), "p95_jct_s": result.p95_jct_s.tolist()}
        for name, result in report.policies.items()
    }


def play_best_tuned(config: EvaluationConfig, pool: WorkerPool) -> Figures:
    """The tunable heuristic that is best in a cell when tuned there, under a name of its own."""
    training = replace(config, sequences=TUNING_SEQUENCES, policies=(REFERENCE,))
    tuned = [tune(name, training, held_back=HELD_BACK, pool=pool) for name in TUNABLE]
    best = min(tuned, key=lambda result: result.figure)
    return {
        BEST_TUNED: play(config, (best.policy,), {best.policy: best.parameters}, pool)[best.policy]
    }


def difference(
    figures: Figures, name: str, reference_name: str, figure: str = "avg_jct_s"
) -> Estimate:
    """Percent of `name` above `reference_name`."""
    values, reference = (np.array(figures[policy][figure]) for policy in (name, reference_name))
    return difference_percent(values, reference)


def percent(estimate: Estimate) -> str:
    """Mean and interval."""
    return estimate.words("+.1f", " %")


def line_of(label: str, figures: Figures) -> str:
    """The cell in one line."""
    mean_s = np.mean(figures[REFERENCE]["avg_jct_s"])
    words = [f"{label:34} {REFERENCE} {mean_s:7.1f} s"]
    words += [
        f"{name} {percent(difference(figures, name, REFERENCE))}"
        for name in figures
        if name != REFERENCE
    ]
    return "  ".join(words)


def print_summary(cells: Mapping[str, Figures]) -> None:
    """Print one line a policy over all cells."""
    all_figures = list(cells.values())
    for name in all_figures[0]:
        if name == REFERENCE or any(name not in figures for figures in all_figures):
            continue
        fair = {label: difference(figures, name, REFERENCE) for label, figures in cells.items()}
        tail = [difference(figures, name, REFERENCE, "p95_jct_s") for figures in all_figures]
        worst = max(fair, key=lambda label: fair[label].mean)
        words = [
            f"{name}: {over_cells(list(fair.values()))} against {REFERENCE} over {len(cells)} "
            f"cells, above it in {above(fair.values())}, worst {percent(fair[worst])} ({worst})",
            f"p95 above its in {above(tail)}",
        ]
        if name != BEST_TUNED and all(BEST_TUNED in figures for figures in all_figures):
            tuned = {
                label: difference(figures, name, BEST_TUNED) for label, figures in cells.items()
            }
            worst = max(tuned, key=lambda label: tuned[label].mean)
            more = sum(cell.mean > 1.0 for cell in tuned.values())
            words.append(
                f"{over_cells(list(tuned.values()))} against the best tuned, over 1 % above it in "
                f"{more}, worst {percent(tuned[worst])} ({worst})"
            )
        print("; ".join(words))


def over_cells(differences: Sequence[Estimate]) -> str:
    """Geometric mean of ratios, with twice its standard error over cells."""
    logs: Float64 = np.array([np.log1p(of_cell.mean / 100) for of_cell in differences])
    spread = 2 * logs.std(ddof=1) / len(logs) ** 0.5 if len(logs) > 1 else np.nan
    return f"{100 * np.expm1(logs.mean()):+.1f} ± {100 * spread:.1f} %"


def above(differences: Iterable[Estimate]) -> int:
    """Count the cells whose whole interval is above zero."""
    return sum(1 for cell in differences if cell.ci95 is not None and cell.ci95[0] > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policies", default="tuned_srw,es_rule")
    parser.add_argument("--tuned", type=Path, action="append", default=[], help="of `decima tune`")
    parser.add_argument("--retune", action="store_true", help="heuristics, in each cell")
    parser.add_argument("--trace", action="append", help="may be repeated; default: tpch")
    parser.add_argument("--executors", default="10,25,50,100,200,500")
    parser.add_argument("--slots", default="8,16,32,64,128,256")
    parser.add_argument("--estimates", choices=KINDS, default="exact", help="of task durations")
    parser.add_argument("--sequences", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--store", type=Path, help="file of figures, JSON")
    arguments = parser.parse_args()
    wanted = (REFERENCE, *arguments.policies.split(","))
    sizes = tuple([int(size) for size in text.split(",") if size]
                  for text in (arguments.executors, arguments.slots))  # fmt: skip
    tuned = read_all_tuned(tuple(arguments.tuned))
    stored: dict[str, Figures] = {}
    if arguments.store is not None and arguments.store.exists():
        stored = json.loads(arguments.store.read_text())
    cells: dict[str, Figures] = {}
    with LocalPool(arguments.workers) as pool:
        for trace in arguments.trace or ["tpch"]:
            for label, config in cells_of(trace, (sizes[0], sizes[1]), arguments.jobs):
                cell = replace(config, sequences=arguments.sequences, estimates=arguments.estimates)
                figures = stored.get(label, {})
                missing = [name for name in wanted if name not in figures]
                figures |= play(cell, missing, tuned, pool)
                if arguments.retune and BEST_TUNED not in figures:
                    figures |= play_best_tuned(cell, pool)
                cells[label] = stored[label] = figures
                print(line_of(label, figures), flush=True)
                if arguments.store is not None:
                    write_json(arguments.store, stored)
    print_summary(cells)


if __name__ == "__main__":
    main()
