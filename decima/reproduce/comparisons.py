"""Figures 9 to 12: the shipped network beside the paper's baselines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from decima.evaluation import EvaluationConfig, Report
from decima.evaluation.config import draw_sequence
from decima.evaluation.report import PolicyRun
from decima.reproduce.bench import BASELINES, TRACE, Bench, batch, stream
from decima.rl.drawing import Measured, errors, panels
from decima.rl.statistics import difference_percent, mean_of
from spark_sim.cluster import parse_classes
from traces.numbers import MS_PER_S, Float64

DECIMA = "decima"
TUNED = "tuned_weighted_fair"
FAIR = "strict_fair"
COLOURS = {
    DECIMA: "tab:blue",
    "es_rule": "tab:cyan",
    TUNED: "tab:orange",
    FAIR: "tab:green",
    "fifo": "tab:gray",
    "sjf_cp": "tab:red",
    "weighted_fair": "tab:olive",
    "tetris": "tab:brown",
    "graphene": "tab:purple",
    "es_classes": "tab:cyan",
}
"""one colour of a policy in all figures"""
CLASSES = "2x13,4x13,6x12,8x12"
"""executors of four memory sizes, 50 of them"""
INDUSTRIAL = "heavy-dag"
"""takes the place of the industrial trace"""
CLASS_LOAD = 0.6
"""as many stages fit few of the executors, queues grow at a load well below 1"""
_PACKERS = (DECIMA, "graphene", "tetris", TUNED, "es_classes")
_TIMES = 200
"""points of a curve over time"""
_LEAST_S = 1e-3
"""executor-seconds that a share is of, at least"""
_FIFTHS = 5
"""parts of the jobs by their work"""
_BUSIEST = 0.25
"""share of the jobs that count as the busiest quarter"""


def figure_9a(bench: Bench) -> dict[str, Any]:
    """Average JCT of batches under every baseline and the network."""
    measured = _baselines(bench, batch())
    jct_s = measured["avg_jct_s"]
    ratio = np.mean(jct_s["fifo"]) / np.mean(jct_s[FAIR])
    measured["here"]["average JCT of fifo over that of fair"] = f"{ratio:.2f}"
    return measured


def figure_9b(bench: Bench) -> dict[str, Any]:
    """Average JCT of continuous arrivals under every baseline and the network."""
    return _baselines(bench, stream())


def _baselines(bench: Bench, config: EvaluationConfig) -> dict[str, Any]:
    report = bench.compared(config, (*BASELINES, "es_rule", DECIMA))
    jct_s = avg_jct_s(report)
    below = percent(jct_s[DECIMA], jct_s[TUNED])
    return {
        **about(report),
        "avg_jct_s": {name: values.tolist() for name, values in jct_s.items()},
        "here": {"average JCT of decima against tuned weighted fair": below},
    }


def about(report: Report) -> dict[str, Any]:
    """Return what a report was measured on."""
    config = report.config
    return {
        "sequences": config.sequences,
        "jobs": config.jobs,
        "parameters": {name: dict(values) for name, values in config.parameters.items()},
    }


def avg_jct_s(report: Report) -> dict[str, Float64]:
    """(S,) average JCT in seconds of each policy."""
    return {name: policy.avg_jct_s for name, policy in report.policies.items()}


def percent(values: Float64, reference: Float64) -> str:
    """Describe a paired difference: ``-5.6 % [-6.1, -5.0]``."""
    return difference_percent(values, reference).words("+.1f", " %")


def draw_cdf(measured: Measured) -> Figure:
    """Share of the sequences below an average JCT, and the means with their intervals."""
    figure, (cdf, bars) = panels(2)
    for name, values in measured["avg_jct_s"].items():
        jct_s = np.sort(values)
        share = np.arange(1, len(jct_s) + 1) / len(jct_s)
        cdf.step(jct_s, share, where="post", color=COLOURS[name], label=name)
    cdf.set(xlabel="average JCT of a sequence, s", ylabel="share of sequences", xscale="log")
    _number_log_axis(cdf)
    cdf.legend(fontsize=6, frameon=False)
    _draw_means(bars, measured["avg_jct_s"])
    return figure


def _draw_means(axes: Axes, avg_jct_s: Measured) -> None:
    entries = {name: mean_of(np.array(jct_s)).to_json() for name, jct_s in avg_jct_s.items()}
    low, high = errors(list(entries.values()))
    for row, (name, entry) in enumerate(entries.items()):
        reach = [[low[row]], [high[row]]]
        axes.errorbar(entry["mean"], row, xerr=reach, color=COLOURS[name], fmt="o", capsize=2)
    axes.set_yticks(range(len(entries)), list(entries), fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="average JCT, s", xscale="log")
    _number_log_axis(axes)


def _number_log_axis(axes: Axes) -> None:
    """Label 1, 2, 5, 10, 20, ... of an axis of seconds."""
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())


def figure_10(bench: Bench) -> dict[str, Any]:
    """Jobs in the system over time, and JCT by arrival, in one sequence."""
    shown = (DECIMA, TUNED, FAIR)
    report = bench.compared(stream(), shown, sequences=1)
    arrivals = draw_sequence(report.config, report.trace, 0)
    arrival_s = arrivals.arrival_ms / MS_PER_S
    jct_s = {name: report.policies[name].runs[0].metrics.jct_s for name in shown}
    end_s = max(float((arrival_s + values).max()) for values in jct_s.values())
    time_s = np.linspace(0.0, end_s, _TIMES)
    waiting = in_system(arrival_s, jct_s[TUNED], arrival_s)
    busiest = waiting >= np.quantile(waiting, 1 - _BUSIEST)
    ratio = jct_s[TUNED][busiest].mean() / jct_s[DECIMA][busiest].mean()
    return {
        **about(report),
        "time_s": time_s.tolist(),
        "in_system": {
            name: in_system(arrival_s, values, time_s).tolist() for name, values in jct_s.items()
        },
        "arrival_s": arrival_s.tolist(),
        "jct_s": {name: values.tolist() for name, values in jct_s.items()},
        "here": {
            "JCT of tuned weighted fair over that of decima in the busiest quarter": f"{ratio:.2f}"
        },
    }


def in_system(arrival_s: Float64, jct_s: Float64, time_s: Float64) -> Float64:
    """(M,) jobs in the system at (M,) times, of (J,) arrivals in order."""
    arrived = np.searchsorted(arrival_s, time_s, side="right")
    completed = np.searchsorted(np.sort(arrival_s + jct_s), time_s, side="right")
    return np.asarray(arrived - completed, np.float64)


def draw_figure_10(measured: Measured) -> Figure:
    """Jobs in the system over time, and a moving mean of the JCT by arrival."""
    figure, (jobs, jct) = panels(2)
    window = max(1, len(measured["arrival_s"]) // 40)
    for name, in_system in measured["in_system"].items():
        colour = COLOURS[name]
        jobs.plot(measured["time_s"], in_system, color=colour, label=name, linewidth=1)
        mean_s = np.convolve(measured["jct_s"][name], np.ones(window) / window, "valid")
        arrival_s = measured["arrival_s"][window - 1 :]
        jct.plot(arrival_s, mean_s, color=colour, linewidth=1)
    jobs.set(xlabel="time, s", ylabel="jobs in the system")
    jct.set(xlabel="arrival, s", ylabel=f"JCT, s, mean of {window} jobs")
    jobs.legend(fontsize=7, frameon=False)
    return figure


def _of_four_sizes(trace: str) -> EvaluationConfig:
    executors = sum(kind.count for kind in parse_classes(CLASSES))
    setting = stream(trace=trace, executors=executors, load=CLASS_LOAD)
    return replace(setting, classes=CLASSES, demands="drawn")


def figure_11(bench: Bench) -> dict[str, Any]:
    """Average JCT on executors of four memory sizes, of two traces."""
    by_trace: dict[str, Any] = {}
    here: dict[str, str] = {}
    for trace, words in ((INDUSTRIAL, "industrial trace"), (TRACE, "TPC-H")):
        report = bench.compared(_of_four_sizes(trace), _PACKERS)
        jct_s = avg_jct_s(report)
        by_trace[trace] = {
            **about(report),
            "avg_jct_s": {name: values.tolist() for name, values in jct_s.items()},
        }
        here[f"average JCT of decima against graphene, {words}"] = percent(
            jct_s[DECIMA], jct_s["graphene"]
        )
    return {"traces": by_trace, "here": here}


def draw_figure_11(measured: Measured) -> Figure:
    """Means with intervals, a panel for each trace."""
    figure, axes_of = panels(len(measured["traces"]))
    for axes, (trace, values) in zip(axes_of, measured["traces"].items(), strict=True):
        _draw_means(axes, values["avg_jct_s"])
        axes.set_title(trace, fontsize=9)
    return figure


def figure_12(bench: Bench) -> dict[str, Any]:
    """Use of the largest executors by the size of the job, and idle memory of busy executors."""
    policies = (DECIMA, "graphene", "tetris")
    report = bench.compared(_of_four_sizes(TRACE), policies, is_short=True, timelines=True)
    shares = {name: _by_size(report, name) for name in policies}
    smallest_s = {name: np.array([row[0] for row in rows]) for name, rows in shares.items()}
    idle = {
        name: np.array([idle_memory_share(run) for run in report.policies[name].runs])
        for name in policies
    }
    jct_s = avg_jct_s(report)
    return {
        **about(report),
        "largest_executor_s": {
            name: np.mean(rows, axis=0).tolist() for name, rows in shares.items()
        },
        "idle_memory": {name: values.tolist() for name, values in idle.items()},
        "here": {
            "time on the largest executors, smallest fifth of the jobs, against graphene": percent(
                smallest_s[DECIMA], smallest_s["graphene"]
            ),
            "average JCT of decima against tetris": percent(jct_s[DECIMA], jct_s["tetris"]),
            "idle memory of busy executors against tetris": percent(idle[DECIMA], idle["tetris"]),
        },
    }


def _by_size(report: Report, policy: str) -> list[Float64]:
    """(5,) executor-seconds on the largest executors by fifths of the jobs' work, by sequence."""
    classes = report.config.cluster().classes or ()
    first_largest = report.config.executors - classes[-1].count
    work_ms = report.trace.columns.work_ms()
    rows = []
    for run in report.policies[policy].runs:
        if run.timeline is None:
            raise TypeError(f"no timeline of {policy} was recorded")
        tasks = run.timeline[run.timeline["executor"] >= first_largest]
        spent_s = np.bincount(
            tasks["job"],
            (tasks["finish_ms"] - tasks["start_ms"]) / MS_PER_S,
            minlength=len(run.metrics.job),
        )
        order = np.argsort(work_ms[run.metrics.job], kind="stable")
        rows.append(np.array([spent_s[part].sum() for part in np.array_split(order, _FIFTHS)]))
    return rows


def idle_memory_share(run: PolicyRun) -> float:
    """Share of the memory of busy executors that their tasks did not need."""
    memory = np.array([kind.memory_mb * kind.busy_s for kind in run.metrics.classes])
    idle = np.array([kind.idle_memory_share for kind in run.metrics.classes])
    return float((memory * idle).sum() / memory.sum())


def draw_figure_12(measured: Measured) -> Figure:
    """Time on the largest executors relative to graphene by size of job, and idle memory."""
    figure, (use, idle) = panels(2)
    reference = np.maximum(measured["largest_executor_s"]["graphene"], _LEAST_S)
    for name, spent_s in measured["largest_executor_s"].items():
        use.plot(
            range(1, _FIFTHS + 1), np.array(spent_s) / reference, color=COLOURS[name], label=name
        )
    use.set(xlabel="fifth of the jobs by work", ylabel="time on the largest, of graphene's")
    use.legend(fontsize=7, frameon=False)
    entries = {
        name: mean_of(np.array(values)).to_json()
        for name, values in measured["idle_memory"].items()
    }
    idle.bar(
        list(entries),
        [entry["mean"] for entry in entries.values()],
        yerr=errors(list(entries.values())),
        color=[COLOURS[name] for name in entries],
    )
    idle.set(ylabel="idle memory of busy executors, share")
    return figure
