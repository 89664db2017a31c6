"""Networks trained for different objectives, each judged by all of them (Decima, figure 13).

    python -m benchmarks.objectives OUT.png avg_jct=RUN/model.safetensors p95=RUN2/model.safetensors

Each model is named by the objective that it was trained for. All play the same batches of 20 TPC-H
queries on 50 executors, which no training has seen. Printed is, for each objective, the figure of
each network and heuristic, and by how much its own network is below the best of the others. The
picture has a timeline of the first batch for each network.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from benchmarks.quality import percent
from benchmarks.readme_figures import draw_timeline
from decima import EvaluationConfig, evaluate
from decima.objectives import objective_named
from decima.rl.drawing import save_figure
from decima.rl.statistics import difference_percent

OTHERS = ("strict_fair", "tuned_srw", "es_rule", "es_makespan", "decima")
BATCHES = EvaluationConfig(trace="tpch", arrivals="batch", jobs=20)


def _pair(text: str) -> tuple[str, str]:
    objective, _, model = text.partition("=")
    if not model:
        raise argparse.ArgumentTypeError(f"{text!r} is not OBJECTIVE=MODEL")
    return objective, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, help="picture to write")
    parser.add_argument("models", nargs="+", type=_pair, metavar="OBJECTIVE=MODEL")
    parser.add_argument("--sequences", type=int, default=100)
    arguments = parser.parse_args()
    model_of = dict(arguments.models)
    policies = (*model_of.values(), *OTHERS)
    config = replace(BATCHES, policies=policies, sequences=arguments.sequences)
    report = evaluate(config, timelines=(0,))

    table = Table("objective", *model_of, *OTHERS, "own network against the best other")
    for name, model in model_of.items():
        objective = objective_named(name)
        figures = {
            policy: np.array([objective.of(run.metrics) for run in result.runs])
            for policy, result in report.policies.items()
        }
        mean = {policy: float(values.mean()) for policy, values in figures.items()}
        best = min((policy for policy in policies if policy != model), key=mean.__getitem__)
        below = difference_percent(figures[model], figures[best])
        label = {model: trained_for for trained_for, model in model_of.items()}.get(best, best)
        table.add_row(
            name,
            *(f"{mean[policy]:.4g}" for policy in policies),
            f"{percent(below)} ({label})",
        )
    Console(width=200).print(table)

    figure = Figure(figsize=(9, 2.2 * len(model_of)), layout="constrained")
    end_s = max(report.policies[model].runs[0].metrics.makespan_s for model in model_of.values())
    for axes, (name, model) in zip(
        figure.subplots(len(model_of), 1, squeeze=False)[:, 0], model_of.items(), strict=True
    ):
        draw_timeline(axes, report, model, f"trained for {objective_named(name).title}", end_s)
    axes.set_xlabel("seconds")
    save_figure(figure, arguments.out, "png")
    print(arguments.out)


if __name__ == "__main__":
    main()
