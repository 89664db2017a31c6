"""The recorded TPC-H trace beside decima-sim's, as a table.

    python -m benchmarks.compare_tpch [--decima-sim FOLDER] [--trace NAME_OR_FILE ...]

Without FOLDER (decima-sim's ``{size}/adj_mat_*.npy`` and ``task_duration_*.npy``) its column is
left out. Every column is computed by the same code; work is at the lowest executor level.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np

from traces import Job, LevelDurations, Stage, Trace, load_trace
from traces.catalog import DATA_FOLDER
from traces.graph import depth, layers
from traces.inflation import with_model
from traces.numbers import MS_PER_S
from traces.parquet import read_trace

LARGEST_SHARE = 0.23
"""the share of jobs for which Decima's paper gives the share of work"""
BASE_LEVEL = 5
"""executors to which work at more of them is compared"""


def columns(arguments: argparse.Namespace) -> dict[str, Trace]:
    """Name of the column -> trace."""
    found: dict[str, Trace] = {}
    if arguments.decima_sim is not None:
        found["decima-sim"] = load_trace(arguments.decima_sim)
    for name in arguments.trace:
        found[name] = load_trace(name)
    recorded = read_trace(DATA_FOLDER / "tpch.parquet")
    found["tpch"] = with_model(recorded)
    found["tpch-measured"] = recorded
    return found


def stages_of(trace: Trace) -> list[Stage]:
    return [stage for job in trace.jobs for stage in job.stages]


def spread(values: Iterable[float], digits: int = 0) -> str:
    """Smallest, median, mean, largest."""
    found = list(values)
    parts = (min(found), statistics.median(found), statistics.fmean(found), max(found))
    return " / ".join(f"{part:,.{digits}f}" for part in parts)


def width(job: Job) -> int:
    """Largest number of stages in one layer."""
    return max(Counter(layers(job)).values())


def share_of_largest(trace: Trace) -> float:
    """Share of all work in the largest jobs."""
    work = sorted((job.work_ms for job in trace.jobs), reverse=True)
    return sum(work[: round(LARGEST_SHARE * len(work))]) / sum(work)


def variation(level: LevelDurations) -> float | None:
    """Coefficient of variation of the rest wave; None for fewer than 10 tasks."""
    if len(level.rest_ms) < 10:
        return None
    return float(level.rest_ms.std() / level.rest_ms.mean())


def wave_ratio(level: LevelDurations, wave: str) -> float | None:
    """Mean of a wave relative to the rest wave; None where one of them is missing."""
    values = getattr(level, f"{wave}_ms")
    if len(values) == 0 or len(level.rest_ms) == 0:
        return None
    return float(values.mean() / level.rest_ms.mean())


def median_of_stages(trace: Trace, figure: Callable[[LevelDurations], float | None]) -> str:
    """Median over the stages that have the figure, at their lowest level."""
    found = [figure(stage.durations[0]) for stage in stages_of(trace)]
    known = [value for value in found if value is not None]
    return f"{statistics.median(known):.2f}" if known else "not measured"


def start_ms(trace: Trace, executors: int) -> float:
    """Cost of starting an executor: fresh less rest wave, median over stages without parents."""
    found = [
        float(level.fresh_ms.mean() - level.rest_ms.mean())
        for stage in stages_of(trace)
        if not stage.parents
        for level in stage.durations
        if level.executors == executors and len(level.fresh_ms) and len(level.rest_ms)
    ]
    return statistics.median(found) if found else 0.0


def inflation_at(trace: Trace, executors: int) -> str:
    """Total work at `executors` relative to `BASE_LEVEL`: warm tasks, and a start an executor."""
    starts = {n: start_ms(trace, n) for n in (BASE_LEVEL, executors)}
    ratios: list[float] = []
    for job in trace.jobs:
        warm = {n: work_at(job, n) for n in starts}
        total = {
            n: work + starts[n] * min(n, job.num_tasks)
            for n, work in warm.items()
            if work is not None
        }
        if len(total) == len(starts):
            ratios.append(total[executors] / total[BASE_LEVEL])
    if not ratios:
        return "not measured"
    return f"{statistics.median(ratios):.2f} / {np.quantile(ratios, 0.9):.2f}"


def work_at(job: Job, executors: int) -> float | None:
    """Executor-milliseconds of `job` at a level; None if a stage lacks it. Fresh tasks excluded."""
    total = 0.0
    for stage in job.stages:
        level = next((own for own in stage.durations if own.executors == executors), None)
        if level is None:
            return None
        warm = np.concatenate([level.first_ms, level.rest_ms])
        total += stage.num_tasks * float((warm if len(warm) else level.fresh_ms).mean())
    return total


FIGURES: dict[str, Callable[[Trace], str]] = {
    "jobs": lambda trace: f"{len(trace.jobs):,}",
    "stages per job": lambda trace: spread((len(job.stages) for job in trace.jobs), 1),
    "edges per job": lambda trace: spread((job.num_edges for job in trace.jobs), 1),
    "depth, stages": lambda trace: spread((depth(job) for job in trace.jobs), 1),
    "width, stages": lambda trace: spread((width(job) for job in trace.jobs), 1),
    "stages with several parents": lambda trace: (
        f"{np.mean([len(stage.parents) > 1 for stage in stages_of(trace)]):.0%}"
    ),
    "tasks per job": lambda trace: spread(job.num_tasks for job in trace.jobs),
    "tasks per stage": lambda trace: spread(stage.num_tasks for stage in stages_of(trace)),
    "work per job, executor-s": lambda trace: spread(
        (job.work_ms / MS_PER_S for job in trace.jobs), 1
    ),
    f"work in the largest {LARGEST_SHARE:.0%} of jobs": lambda trace: (
        f"{share_of_largest(trace):.0%}"
    ),
    "mean task of a stage, s": lambda trace: spread(
        (stage.durations[0].mean_ms / MS_PER_S for stage in stages_of(trace)), 3
    ),
    "longest chain of tasks per job, s": lambda trace: spread(
        (max(job.critical_path_ms) / MS_PER_S for job in trace.jobs), 1
    ),
    "variation of tasks in a stage": lambda trace: median_of_stages(trace, variation),
    "first wave / rest wave": lambda trace: median_of_stages(
        trace, lambda level: wave_ratio(level, "first")
    ),
    "fresh / rest wave, all stages": lambda trace: median_of_stages(
        trace, lambda level: wave_ratio(level, "fresh")
    ),
    **{
        f"work at {n} executors / at {BASE_LEVEL}: median, p90": partial(inflation_at, executors=n)
        for n in (10, 20, 50, 100)
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--decima-sim", type=Path, help="folder of its TPC-H files")
    parser.add_argument("--trace", action="append", default=[], help="another column")
    traces = columns(parser.parse_args())
    print("Four numbers are minimum / median / mean / maximum; one is a median or a share.\n")
    print(f"| | {' | '.join(traces)} |")
    print(f"|---|{'---|' * len(traces)}")
    for name, figure in FIGURES.items():
        print(f"| {name} | {' | '.join(figure(trace) for trace in traces.values())} |")


if __name__ == "__main__":
    main()
