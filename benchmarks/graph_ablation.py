"""Ablation of the graph: the same training with parts of the network left out.

    python -m benchmarks.graph_ablation [--seeds 3] [--iterations 24] [--trace tpch]

Without message passing a stage's embedding holds its own columns alone; without the path columns
the stage head does not see a stage's position in its job's graph. Traces: `tpch`, `random-dag`, and
`alike`, made here, whose jobs differ in nothing but their edges: nine stages of twelve tasks of one
second each. A line each: the average JCT of the likeliest plans against strict fair's on sequences
that no training saw, all seeds together, with 95 % bootstrap intervals over sequences.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.quality import percent
from decima import EvaluationConfig, evaluate
from decima.evaluation.settings_file import gap_at
from decima.rl.run_folder import RunFolder
from decima.rl.statistics import difference_percent
from decima.training.config import TrainConfig, read_config
from decima.training.session import MODEL, run_training
from traces import Job, Stage, Trace, write_trace

VARIANTS = {
    "all": (),
    "no messages": ("network.messages=false",),
    "no path columns": ("network.path_columns=false",),
    "neither": ("network.messages=false", "network.path_columns=false"),
}
TRACES = ("tpch", "random-dag", "alike")
EXECUTORS, LOAD = 50, 0.8
STAGES, TASKS, TASK_MS = 9, 12, 1_000.0
FIRST_SEED, SEQUENCES, JOBS = 11_000, 20, 100
REFERENCE = "strict_fair"


def alike_trace(rng: np.random.Generator, num_jobs: int = 100) -> Trace:
    """Jobs of equal stages: from nine in a row to nine side by side."""
    return Trace("alike", tuple(_alike_job(f"job{index}", rng) for index in range(num_jobs)))


def _alike_job(name: str, rng: np.random.Generator) -> Job:
    density = float(rng.uniform(0.0, 0.6))
    stages = []
    for index in range(STAGES):
        parents = [one for one in range(index) if rng.random() < density]
        stages.append(Stage.fixed(f"s{index}", TASKS, TASK_MS, parents))
    return Job(name, tuple(stages))


def training_of(trace: str, seed: int, iterations: int, changes: tuple[str, ...]) -> TrainConfig:
    """Imitation alone: the best heuristic teaches all variants the same."""
    return read_config(
        None,
        (
            f"seed={seed}",
            f"imitate.iterations={iterations}",
            "imitate.sequences=8",
            "reinforce.iterations=0",
            "episodes.settings=1",
            f"validation.every={iterations}",
            "validation.sequences=1",
            *changes,
        ),
        {
            "trace": trace,
            "executors": EXECUTORS,
            "interarrival_s": [gap_at(trace, EXECUTORS, LOAD)],
        },
    )


def trained(trace: str, iterations: int, seeds: int, folder: Path) -> Iterator[tuple[str, Path]]:
    """Each variant's models."""
    for variant, changes in VARIANTS.items():
        for seed in range(seeds):
            config = training_of(trace, seed, iterations, changes)
            path = folder / f"{Path(trace).stem}-{variant.replace(' ', '-')}-{seed}"
            with RunFolder.create(path, config.to_json()) as run:
                run_training(run)
            yield variant, path / MODEL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", action="append", choices=TRACES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=24)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alike = folder / "alike.parquet"
        write_trace(alike_trace(np.random.default_rng(5)), alike)
        for trace in arguments.trace or TRACES:
            place = str(alike) if trace == "alike" else trace
            models = list(trained(place, arguments.iterations, arguments.seeds, folder))
            config = EvaluationConfig(
                trace=place,
                executors=EXECUTORS,
                interarrival_s=gap_at(place, EXECUTORS, LOAD),
                jobs=JOBS,
                sequences=SEQUENCES,
                seed=FIRST_SEED,
                policies=(REFERENCE, "es_rule", *(str(model) for _, model in models)),
            )
            report = evaluate(config)
            fair_s = report.policies[REFERENCE].avg_jct_s
            rule_s = report.policies["es_rule"].avg_jct_s
            print(f"{trace:12} es_rule          {percent(difference_percent(rule_s, fair_s))}")
            for variant in VARIANTS:
                own = [str(model) for name, model in models if name == variant]
                jct_s = np.mean([report.policies[one].avg_jct_s for one in own], axis=0)
                print(
                    f"{trace:12} {variant:16} {percent(difference_percent(jct_s, fair_s))}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
