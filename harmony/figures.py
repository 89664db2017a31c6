"""The paper's figures and table: measured as numbers with intervals, and drawn; `picture`.

All on sequences of the purpose `TEST`, which no training and no fitting has seen; every scheduler
plays the same ones. Source: Harmony, section VI.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from decima.rl.colours import job_colour
from decima.rl.drawing import Measured, errors, panels
from decima.rl.errors import NoModelsError, RunError
from decima.rl.optimiser import one_thread
from decima.rl.statistics import compared, difference_percent, mean_of
from decima.rl.study.lockstep import play_up_to
from decima.rl.study.streams import Purpose
from harmony.clusters import Clusters
from harmony.config import CONFIGS, RATES, Config
from harmony.evaluation import baselines, completion_by_type, played
from harmony.interference import (
    LINEAR,
    QUADRATIC,
    SEED,
    Samples,
    draw_samples,
    fit_lif,
    predict_lif,
    relative_error,
    samples_of,
)
from harmony.jobs import draw_jobs
from harmony.learner import CLOSE, predict, split
from harmony.measured import measured
from harmony.models import Learned, load_model
from harmony.network import ActorCritic, RewardModel
from harmony.schedulers import Scheduler, Tiresias
from harmony.study import ABLATIONS, SIZES, Models, Training
from harmony.tables import Float64
from harmony.training_config import RewardConfig
from traces.files.pictures import save_figure

GROUPS, STATES = 20, 150
"""of sequences whose speeds are predicted, and states of each: states of one are not independent"""
UNSEEN = 2_981
"""added to the seed, gives that of the first group, and on from there"""
INTERVALS_MIN = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0)
LABELS = {
    "lb": "LB",
    "tetris": "Tetris",
    "tiresias": "Tiresias",
    "tiresias_las": "Tiresias, LAS",
    "lif_linear": "LIF-Linear",
    "lif_quad": "LIF-Quad",
    "lookahead": "lookahead (added)",
    "lb_gittins": "LB, Gittins",
    "tetris_gittins": "Tetris, Gittins",
    "lif_linear_gittins": "LIF-Linear, Gittins",
    "lif_quad_gittins": "LIF-Quad, Gittins",
    "lookahead_gittins": "lookahead, Gittins",
    "harmony": "Harmony",
    "harmony for 6 servers": "Harmony for 6 servers",
    "harmony on the reward model": "Harmony on the reward model",
    "no_critic": "no critic",
    "no_exploration": "no exploration",
    "one_head": "one head",
    "no_replay": "no replay",
}
_TITLES = {
    "patterns": "",
    "worst": "only the worst neighbour counts",
    "analytic": "analytic model of speeds",
}
_LEGEND_ROWS = 16


class Bench(NamedTuple):
    """Clusters and sequences that schedulers are compared on."""

    models: Models
    sequences: int
    seed: int = SEED

    def completions(self, pairs: Sequence[tuple[ActorCritic, Config]]) -> list[Float64]:
        """(S,) mean completion times in intervals of each policy in its cluster."""
        return [clusters.mean_completion() for clusters in self.played(pairs)]

    def played(self, pairs: Sequence[tuple[ActorCritic, Config]]) -> list[Clusters]:
        """Clusters in which each policy has played all sequences."""
        learned = [(Learned(network.policy, config), config) for network, config in pairs]
        return self._on_all_cores(learned, [])

    def baselines(self, config: Config) -> Mapping[str, Scheduler]:
        """Return the heuristics by name."""
        return baselines(config, samples_of(config, self.seed))

    def played_by(self, scheduler: Scheduler, config: Config) -> Clusters:
        """Clusters in which a scheduler has played all sequences."""
        jobs = draw_jobs(config, self.sequences, self.seed, Purpose.TEST)
        return played(scheduler, config, jobs, self.seed)

    def compared(
        self, configs: Mapping[str, Config], policies: Mapping[str, Sequence[ActorCritic]]
    ) -> dict[str, Any]:
        """Completion times by cluster of heuristics and trainings, and differences in percent."""
        by_cluster = {key: self.baselines(config) for key, config in configs.items()}
        learned = [
            (Learned(network.policy, config), config)
            for config in configs.values()
            for networks in policies.values()
            for network in networks
        ]
        heuristics = [
            (scheduler, configs[key])
            for key, schedulers in by_cluster.items()
            for scheduler in schedulers.values()
        ]
        clusters = self._on_all_cores(learned, heuristics)
        values = iter([played.mean_completion() for played in clusters])
        of_learned = {
            key: {name: [next(values) for _ in networks] for name, networks in policies.items()}
            for key in configs
        }
        return {
            key: compared({name: next(values) for name in schedulers}, of_learned[key])
            for key, schedulers in by_cluster.items()
        }

    def _on_all_cores(
        self,
        learned: Sequence[tuple[Scheduler, Config]],
        heuristics: Sequence[tuple[Scheduler, Config]],
    ) -> list[Clusters]:
        """Clusters in which each scheduler has played all sequences, policies first."""
        # Threads: torch holds no lock while it computes, which is nearly all that a policy does.
        # Heuristics do hold it, so they are spread evenly among the policies.
        pairs = [*learned, *heuristics]
        turn = [(n + 0.5) / len(kind) for kind in (learned, heuristics) for n in range(len(kind))]
        # Each sets torch's number of threads for itself, and MKL's for all.
        single = partial(torch.set_num_threads, 1)
        with one_thread(), ThreadPoolExecutor(os.cpu_count(), initializer=single) as pool:
            order = sorted(range(len(pairs)), key=lambda n: turn[n])
            futures = {n: pool.submit(self.played_by, *pairs[n]) for n in order}
            return [futures[n].result() for n in range(len(pairs))]


def _bars(axes: Axes, entries: Measured, at: float, width: float, label: str | None) -> None:
    """A group of bars with their intervals, one for each name."""
    means = [entry["mean"] for entry in entries.values()]
    places = [number + at for number in range(len(means))]
    axes.bar(places, means, width, yerr=errors(list(entries.values())), label=label, capsize=2)


def _named(axes: Axes, names: list[str], label: str) -> None:
    axes.set_xticks(range(len(names)), [LABELS.get(name, name) for name in names], rotation=60)
    axes.tick_params(axis="x", labelsize=7)
    axes.set(ylabel=label, ylim=(0, None))


def _draw_patterns(figures: Measured) -> Figure:
    """One panel for each group of the figure, one colour for each pattern of arrival."""
    groups = {name: figures[name] for name in _TITLES if name in figures}
    figure, axes_of = panels(len(groups))
    for axes, (group, patterns) in zip(axes_of, groups.items(), strict=True):
        for number, (pattern, entries) in enumerate(patterns.items()):
            _bars(axes, entries, 0.27 * (number - 1), 0.27, pattern)
        _named(axes, list(next(iter(patterns.values()))), "average completion time, intervals")
        axes.set_title(_TITLES[group])
    axes_of[0].legend()  # the colours of all panels
    return figure


def figure_10(bench: Bench) -> dict[str, Any]:
    """Completion time by pattern of arrival on 6 servers, by three models of speed."""
    policies = {
        "harmony": bench.models.policies("policy", "6"),
        "harmony on the reward model": bench.models.policies("model", "6"),
    }
    analytic = {"harmony": bench.models.policies("analytic", "6")}
    return {
        "patterns": _by_pattern(bench, CONFIGS["6"], policies),
        "worst": _by_pattern(bench, replace(CONFIGS["6"], several="worst"), policies),
        "analytic": _by_pattern(bench, replace(CONFIGS["6"], speed="analytic"), analytic),
    }


def figure_14(bench: Bench) -> dict[str, Any]:
    """Measure figure 14 on 30 servers, by both models of speed."""
    policies = {
        "harmony": bench.models.policies("policy", "30"),
        "harmony for 6 servers": bench.models.policies("policy", "6"),
    }
    analytic = {"harmony": bench.models.policies("analytic", "30")}
    return {
        "patterns": _by_pattern(bench, CONFIGS["30"], policies),
        "analytic": _by_pattern(bench, replace(CONFIGS["30"], speed="analytic"), analytic),
    }


def _by_pattern(
    bench: Bench, config: Config, policies: Mapping[str, list[ActorCritic]]
) -> dict[str, Any]:
    return bench.compared({pattern: config.arriving(pattern) for pattern in RATES}, policies)


def figure_11(bench: Bench) -> dict[str, Any]:
    """Completion time by type of job on 6 servers, uniform arrivals."""
    policies = bench.models.policies("policy", "6")
    learned = bench.played([(network, CONFIGS["6"]) for network in policies])
    heuristics = {
        name: bench.played_by(scheduler, CONFIGS["6"])
        for name, scheduler in bench.baselines(CONFIGS["6"]).items()
    }
    types = {}
    for number, model in enumerate(measured().models):
        times = {name: completion_by_type(played, number) for name, played in heuristics.items()}
        of_learned = [completion_by_type(clusters, number) for clusters in learned]
        types[model] = compared(times, {"harmony": of_learned})
    return {"types": types}


def _draw_figure_11(figures: Measured) -> Figure:
    figure, (axes,) = panels(1)
    shown = ("harmony", "tiresias", "lookahead_gittins")
    for number, name in enumerate(shown):
        entries = {kind: times[name] for kind, times in figures["types"].items() if name in times}
        _bars(axes, entries, 0.27 * (number - 1), 0.27, LABELS[name])
    _named(axes, list(figures["types"]), "average completion time, intervals")
    axes.legend()
    return figure


def figure_12(bench: Bench) -> dict[str, Any]:
    """Completion time in minutes against the length of the interval."""
    policies = bench.models.policies("policy", "6")
    if not policies:
        raise NoModelsError(Training("policy", "6", 0).name)
    configs = [replace(CONFIGS["6"], interval_min=minutes) for minutes in INTERVALS_MIN]
    pairs = [(network, config) for config in configs for network in policies]
    values = np.stack(bench.completions(pairs)).reshape(len(configs), len(policies), -1)
    return {
        "minutes": {
            f"{minutes:.0f}": mean_of(intervals * minutes).to_json()
            for minutes, intervals in zip(INTERVALS_MIN, values, strict=True)
        }
    }


def _draw_figure_12(figures: Measured) -> Figure:
    figure, (axes,) = panels(1)
    minutes = [int(key) for key in figures["minutes"]]
    entries = list(figures["minutes"].values())
    axes.errorbar(minutes, [entry["mean"] for entry in entries], errors(entries), capsize=2, lw=1.2)
    axes.set(xlabel="interval, minutes", ylabel="average completion time, minutes", ylim=(0, None))
    return figure


def figure_13(bench: Bench) -> dict[str, Any]:
    """Relative errors of predicted speeds in sequences nothing has seen, and shares within 10 %."""
    by_servers: dict[str, Any] = {}
    first = bench.seed + UNSEEN
    for servers, config in CONFIGS.items():
        models = bench.models.rewards(servers)
        if models:
            unseen = [draw_samples(config, STATES, seed) for seed in range(first, first + GROUPS)]
            runs = [_errors(model.network, model.config, unseen) for model in models]
            by_servers[servers] = {
                name: _error_figures([errors[name] for errors in runs], unseen) for name in runs[0]
            }
    if not by_servers:
        raise NoModelsError(Training("reward", "6", 0).name)
    return {"servers": by_servers, "models": list(measured().models)}


def _errors(
    network: RewardModel, config: RewardConfig, unseen: list[Samples]
) -> dict[str, list[Float64]]:
    """Errors of all jobs of each group of sequences, by what predicts.

    LIF is fitted to what the network has learned from.
    """
    learned_from, _ = split(config)
    gpus = len(config.cluster.gpu_table)
    linear, quadratic = (fit_lif(learned_from, terms, gpus) for terms in (LINEAR, QUADRATIC))
    predictors: dict[str, Callable[[Samples], Float64]] = {
        "reward model": lambda samples: predict(network, samples),
        "lif_linear": lambda samples: predict_lif(samples, linear),
        "lif_quad": lambda samples: predict_lif(samples, quadratic),
    }
    return {
        name: [relative_error(predictor(samples), samples) for samples in unseen]
        for name, predictor in predictors.items()
    }


def _error_figures(runs: list[list[Float64]], unseen: list[Samples]) -> dict[str, Any]:
    """Mean errors and shares within 10 %: of all jobs, intervals over groups, and by type."""
    model = np.concatenate(
        [samples.running.shape[samples.running.is_job][:, 0] for samples in unseen] * len(runs)
    )
    errors = np.concatenate([group for groups in runs for group in groups])
    by_model = [errors[model == number] for number in range(len(measured().models))]
    means = np.array([[group.mean() for group in groups] for groups in runs])
    close = np.array([[(group < CLOSE).mean() for group in groups] for groups in runs])
    return {
        "error": mean_of(means).to_json(),
        "close": mean_of(close).to_json(),
        "error_by_model": [float(of_model.mean()) for of_model in by_model],
        "close_by_model": [float((of_model < CLOSE).mean()) for of_model in by_model],
        "trainings": len(runs),
    }


def _draw_figure_13(figures: Measured) -> Figure:
    figure, (error, close, by_model) = panels(3)
    for number, (servers, entries) in enumerate(figures["servers"].items()):
        for axes, key in ((error, "error"), (close, "close")):
            chosen = {name: entry[key] for name, entry in entries.items()}
            _bars(axes, chosen, 0.4 * number, 0.4, f"{servers} servers")
            _named(axes, list(entries), {"error": "relative error", "close": "within 10 %"}[key])
            axes.legend()
    for number, (name, entry) in enumerate(figures["servers"].get("6", {}).items()):
        places = [place + 0.27 * (number - 1) for place in range(len(figures["models"]))]
        by_model.bar(places, entry["error_by_model"], 0.27, label=LABELS.get(name, name))
    _named(by_model, list(figures["models"]), "relative error, 6 servers")
    if by_model.patches:
        by_model.legend()
    return figure


def figure_15(bench: Bench) -> dict[str, Any]:
    """Completion time of short trainings, by the size of the network."""
    return {"sizes": _variants(bench, list(SIZES), "paper_size")}


def table_2(bench: Bench) -> dict[str, Any]:
    """Completion time of the paper's recipe, and without each of its parts."""
    return {"rows": _variants(bench, list(ABLATIONS), "recipe")}


def _variants(bench: Bench, kinds: list[str], reference: str) -> dict[str, Any]:
    values = {
        kind: np.stack(bench.completions([(network, CONFIGS["6"]) for network in networks]))
        for kind in kinds
        if (networks := bench.models.policies(kind, "6"))
    }
    if not values:
        raise NoModelsError(", ".join(Training(kind, "6", 0).name for kind in kinds))
    rows: dict[str, Any] = {}
    for kind, times in values.items():
        each = [float(training.mean()) for training in times]
        rows[kind] = {**mean_of(times).to_json(), "trainings": len(times), "each": each}
        if reference in values and kind != reference:
            against = difference_percent(times, values[reference])
            rows[kind]["percent_against"] = {reference: against.to_json()}
    return rows


def _draw_variants(figures: Measured) -> Figure:
    figure, (axes,) = panels(1)
    entries = figures["rows"] if "rows" in figures else figures["sizes"]
    _bars(axes, entries, 0.0, 0.7, None)
    _named(axes, list(entries), "average completion time, intervals")
    return figure


FIGURES: Mapping[str, tuple[Callable[[Bench], dict[str, Any]], Callable[[Measured], Figure]]] = {
    "figure10": (figure_10, _draw_patterns),
    "figure11": (figure_11, _draw_figure_11),
    "figure12": (figure_12, _draw_figure_12),
    "figure13": (figure_13, _draw_figure_13),
    "figure14": (figure_14, _draw_patterns),
    "figure15": (figure_15, _draw_variants),
    "table2": (table_2, _draw_variants),
}
"""how each is measured and drawn, by name; those of the paper by their number there"""


def picture(config: Config, model: Path | None, seed: int, interval: int, output: Path) -> None:
    """Write the tasks on each server, a colour and a number for each job, at an interval, as PNG.

    Raises StudyError if the episode is over before, RunError if the file cannot be written.
    """
    scheduler: Scheduler
    if model is None:
        scheduler = Tiresias(config)
    else:
        scheduler = Learned(load_model(model).network.policy, config)
    jobs = draw_jobs(config, 1, seed, Purpose.TEST)
    clusters = Clusters(config, jobs, seed=seed, priority=scheduler.priority(jobs))
    play_up_to(scheduler, clusters, seed, clusters.state.interval, interval, "interval")
    state, models = clusters.state, measured(config.table_file).models
    running = sorted(state.running[0, : state.running_count[0]].tolist())
    figure, (axes,) = panels(1)
    # A third of an inch for each server, and room for the columns of the legend.
    columns = -(-max(len(running), 1) // _LEGEND_ROWS)
    figure.set_size_inches(max(4.6, 0.33 * config.servers) + 1.4 * columns, 3.6)
    bottom = np.zeros(config.servers)
    for rank, job in enumerate(running):
        tasks = state.placed[0, job].sum(axis=1)
        held = np.nonzero(tasks)[0]
        label = f"{job}  {models[int(jobs.model[0, job])]}"
        bars = axes.bar(
            held, tasks[held], bottom=bottom[held], color=job_colour(rank), ec="black", label=label
        )
        axes.bar_label(bars, [str(job)] * len(held), label_type="center", fontsize=7)
        bottom += tasks
    axes.set(xlabel="server", ylabel="workers and parameter servers")
    axes.set_xticks(range(config.servers))
    axes.set_xlim(-0.6, config.servers - 0.4)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"{len(running)} jobs in interval {int(state.interval[0])}")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside right upper",
        title="job and model",
        fontsize=7,
        title_fontsize=7,
        ncols=columns,
    )
    save_figure(figure, output, "png", RunError)
