"""The README's picture: who runs what under Spark's FAIR and under the learned policy, and a curve.

    python -m benchmarks.readme_figures RUN OUT     (make figures)

RUN is the folder of a training, OUT a folder. Above are two timelines of one batch of jobs: a row
an executor, a colour a job, a line where the average job is complete. Below is the learning curve
of RUN: likeliest and drawn plans on held-out sequences against strict fair, and the heuristics.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from decima import EvaluationConfig, evaluate
from decima.evaluation.report import Report
from decima.rl.colours import job_colour
from decima.rl.run_folder import read_run
from decima.training.play import ABOVE
from traces.files.pictures import save_figure
from traces.numbers import MS_PER_S

POLICIES = {"spark_fair": "Spark's FAIR", "decima": "the learned policy"}
BATCH = EvaluationConfig(
    trace="tpch",
    executors=25,
    arrivals="batch",
    jobs=16,
    sequences=1,
    seed=20,
    policies=tuple(POLICIES),
)


def draw_timeline(axes: Axes, report: Report, policy: str, title: str, end_s: float) -> None:
    """Every task of the first sequence as a bar in its executor's row."""
    run = report.policies[policy].runs[0]
    if run.timeline is None:
        raise TypeError(f"no timeline of {policy} was recorded")
    start_s, finish_s = (run.timeline[name] / MS_PER_S for name in ("start_ms", "finish_ms"))
    row = run.timeline["executor"].astype(float)
    bars = np.stack(
        [
            np.stack([start_s, row], 1),
            np.stack([finish_s, row], 1),
            np.stack([finish_s, row + 0.9], 1),
            np.stack([start_s, row + 0.9], 1),
        ],
        1,
    )
    colours = [job_colour(int(job)) for job in run.timeline["job"]]
    axes.add_collection(PolyCollection(list(bars), facecolors=colours, edgecolors="none"))
    mean_s = run.metrics.avg_jct_s
    axes.axvline(mean_s, color="black", linewidth=1.5)
    axes.set_title(f"{title}: average JCT {mean_s:.0f} s", loc="left", fontsize=10)
    axes.set(xlim=(0, end_s), ylim=(0, report.config.executors), ylabel="executor", yticks=[])


def draw_curve(axes: Axes, run: Path) -> None:
    """Average JCT of a training's plans on held-out sequences, and levels of heuristics there."""
    rows = [row for row in read_run(run).metrics if "validation/score" in row]
    # Evolution, which follows imitation, draws no plans.
    drawn = [row for row in rows if "validation/drawn" in row]
    iterations = [row["iteration"] + 1 for row in rows]
    scores = [row["validation/score"] for row in rows]
    axes.plot(iterations, scores, marker="o", markersize=3, label="likeliest plans")
    last = rows[-1]
    # The two levels are close to each other: one name stands above, one below.
    for name, side in (("tuned_srw", "bottom"), ("es_rule", "top")):
        above = last[f"validation/{ABOVE}{name}"]
        level = 100 * ((1 + last["validation/score"] / 100) / (1 + above / 100) - 1)
        axes.axhline(level, linestyle=":", color="grey")
        axes.annotate(name, (iterations[0], level), fontsize=8, va=side)
    axes.axhline(0.0, color="grey", linewidth=0.8)
    axes.set(xlabel="iteration", ylabel="JCT against\nstrict fair, %")
    axes.plot(
        [row["iteration"] + 1 for row in drawn],
        [row["validation/drawn"] for row in drawn],
        label="drawn plans",
        alpha=0.6,
    )
    axes.set_title("Learning from a random network (make run)", loc="left", fontsize=10)
    axes.legend(fontsize=8, frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="folder of a training")
    parser.add_argument("out", type=Path, help="folder to write to")
    arguments = parser.parse_args()
    report = evaluate(BATCH, timelines=(0,))
    end_s = max(result.runs[0].metrics.makespan_s for result in report.policies.values())
    figure = Figure(figsize=(9, 7), layout="constrained")
    above, below, curve = figure.subplots(3, 1, height_ratios=(1, 1, 0.9))
    for axes, (policy, title) in zip((above, below), POLICIES.items(), strict=True):
        draw_timeline(axes, report, policy, title, end_s)
    below.set_xlabel("seconds")
    draw_curve(curve, arguments.run)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "readme.png"
    save_figure(figure, path, "png")
    print(path)


if __name__ == "__main__":
    main()
