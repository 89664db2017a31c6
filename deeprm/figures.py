"""The paper's figures: measured as numbers with intervals, and drawn from those; `picture`.

Every figure is measured on the same 100 job sets, of the purpose `TEST`, which no training and no
tuning has seen. Source: DeepRM (HotNets 2016), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from decima.rl.colours import job_colour
from decima.rl.drawing import Measured, errors, panels
from decima.rl.errors import NoModelsError, RunError
from decima.rl.statistics import compared, mean_of, mean_of_chosen
from decima.rl.study.lockstep import ONLY, play_up_to
from decima.rl.study.streams import Purpose
from deeprm.config import PAPER, Config
from deeprm.episodes import Episodes
from deeprm.evaluation import TUNING_SETS, Outcome, baselines, evaluate
from deeprm.jobs import draw_jobs
from deeprm.objectives import Objective
from deeprm.render import CELL, GAP, machine_cells, panel_corners, rgb
from deeprm.schedulers import SJF, Model, Scheduler, load_scheduler, scheduler_of
from deeprm.study import (
    FIRST_AT,
    LOADS,
    OBJECTIVES_AT,
    SEEDS,
    SIZES_AT,
    Kind,
    Models,
    Training,
    branches_for,
)
from deeprm.tables import NONE, OBJECTIVES, Bool, Float64, Int32, Jobs
from traces.files.pictures import save_figure

SEED = 2016
"""of job sets and choices; trainings have theirs"""
HELD_AT = 110
"""percent, of figure 7"""
PLAYS = 5
"""episodes of a policy on each job set, as its actions are drawn"""
SIZES = {1: 10, 2: 15, 4: 20}
"""capacity, in that of the paper's cluster, and slots"""


LABELS = {
    "on branches": "DeepRM on branches",
    "tetris": "Tetris*",
    "hold": "hold",
    "sjf": "SJF",
    "packer": "Packer",
    "random": "random",
}
COLOURS = {
    "deeprm": "tab:blue",
    "on branches": "tab:purple",
    "tetris": "tab:orange",
    "hold": "black",
    "sjf": "tab:green",
    "packer": "tab:red",
    "random": "tab:gray",
}
_INCH = 110.0
"""pixels of one"""
_SMALL: dict[str, Any] = {"fontsize": 7, "clip_on": False}


class Bench(NamedTuple):
    """Clusters and job sets that schedulers are compared on."""

    models: Models
    sets: int
    """job sets"""
    seed: int = SEED

    def cluster(self, load: int) -> Config:
        """Return the cluster at a load in percent."""
        return PAPER.at_load(load / 100)

    def jobs(self, config: Config) -> Jobs:
        """Return the unseen job sets."""
        return draw_jobs(config, self.sets, self.seed, Purpose.TEST)

    def tuned(self, config: Config, objective: Objective) -> Mapping[str, Scheduler]:
        """Return the heuristics by name, tuned on other job sets."""
        tuning = draw_jobs(config, TUNING_SETS, self.seed, Purpose.TUNING)
        return baselines(config, tuning, objective)

    def heuristics(self, config: Config, objective: Objective) -> dict[str, Outcome]:
        """Return the heuristics' outcomes by name."""
        jobs = self.jobs(config)
        return {
            name: evaluate(scheduler, config, jobs, self.seed)
            for name, scheduler in self.tuned(config, objective).items()
        }

    def learned(self, kind: Kind, load: int) -> list[Plays]:
        """Return the plays of each training of that kind."""
        return [self.played(model, self.cluster(load)) for model in self.models.of(kind, load)]

    def played(self, model: Model, config: Config) -> Plays:
        """Return the plays of a model on such a cluster."""
        scheduler, jobs = scheduler_of(model), self.jobs(config)
        seeds = range(self.seed, self.seed + PLAYS)
        return Plays([evaluate(scheduler, config, jobs, seed) for seed in seeds])

    def slowdowns(
        self, config: Config, learned: Mapping[str, Sequence[Plays]]
    ) -> dict[str, dict[str, Any]]:
        """Return slowdowns of the heuristics, and of trainings against them."""
        heuristics = self.heuristics(config, Objective.SLOWDOWN)
        return compared(
            {name: outcome.slowdown for name, outcome in heuristics.items()},
            {
                name: [plays.mean(lambda outcome: outcome.slowdown) for plays in runs]
                for name, runs in learned.items()
            },
        )


class Plays(NamedTuple):
    """Episodes of one policy, which draws its actions: several on each job set."""

    outcomes: list[Outcome]
    """one episode on each job set, several times"""

    def mean(self, of: Callable[[Outcome], Float64]) -> Float64:
        """(S,) mean over the episodes of each job set."""
        return np.asarray(np.mean([of(outcome) for outcome in self.outcomes], axis=0))


def _values(learned: list[Plays], of: Callable[[Outcome], Float64]) -> Float64:
    """(P, S) of P trainings."""
    return np.stack([plays.mean(of) for plays in learned])


def figure_4(bench: Bench) -> dict[str, Any]:
    """Average slowdown against load, one policy a load; those on branches serve several."""
    by_load = {}
    for load in LOADS:
        on_branches = bench.models.of("branches", branches_for(load))
        learned = {
            "deeprm": bench.learned("slowdown", load),
            "on branches": [bench.played(model, bench.cluster(load)) for model in on_branches],
        }
        if load == FIRST_AT:
            learned["paper's recipe"] = bench.learned("paper", load)
        by_load[str(load)] = bench.slowdowns(bench.cluster(load), learned)
    return {"loads": by_load}


def _lines(table: Measured, label: str, ours: str, at: Callable[[str], int | str]) -> Figure:
    """Slowdown of each scheduler along the table, whose keys `at` places."""
    figure, (axes,) = panels(1)
    for name, colour in COLOURS.items():
        keys = [key for key, entry in table.items() if name in entry]
        entries = [table[key][name] for key in keys]
        means = [entry["mean"] for entry in entries]
        style: dict[str, Any] = {"color": colour, "capsize": 2, "lw": 1.2}
        name_shown = LABELS.get(name, ours)
        axes.errorbar([at(key) for key in keys], means, errors(entries), label=name_shown, **style)
    axes.set(xlabel=label, ylabel="average slowdown", ylim=(0, None))
    axes.legend()
    return figure


def figure_5(bench: Bench) -> dict[str, Any]:
    """Every objective at 130 %, of the heuristics and of a policy trained for each."""
    measures: dict[str, Any] = {objective.value: {} for objective in Objective}
    heuristics = bench.heuristics(bench.cluster(OBJECTIVES_AT), Objective.SLOWDOWN)
    for name, outcome in heuristics.items():
        for objective in Objective:
            figure = mean_of(outcome.measure(objective)[None]).to_json()
            measures[objective.value][name] = figure
    for name in OBJECTIVES:
        learned = bench.learned(name, OBJECTIVES_AT)
        for objective in Objective if learned else ():
            measured = partial(Outcome.measure, objective=objective)
            figure = {**mean_of(_values(learned, measured)).to_json(), "trainings": len(learned)}
            measures[objective.value][f"deeprm for {name}"] = figure
    return {"load": OBJECTIVES_AT, "measures": measures}


def _draw_figure_5(figures: Measured) -> Figure:
    units = {
        "slowdown": "average slowdown",
        "completion": "average completion time, steps",
        "utilisation": "utilisation while jobs arrive",
        "makespan": "makespan, steps",
    }
    figure, axes_of = panels(len(units))
    for axes, (measure, label) in zip(axes_of, units.items(), strict=True):
        entries = figures["measures"][measure]
        names = [LABELS.get(name, name.replace("deeprm", "DeepRM")) for name in entries]
        colours = [COLOURS.get(name, COLOURS["deeprm"]) for name in entries]
        means = [entry["mean"] for entry in entries.values()]
        axes.barh(names, means, xerr=errors(list(entries.values())), color=colours, capsize=2)
        axes.invert_yaxis()
        axes.set(xlabel=label)
    return figure


def figure_6(bench: Bench) -> dict[str, Any]:
    """Slowdown and rewards against iterations at 70 %; heuristics on the same job sets."""
    curves = bench.models.curves()
    names = [Training("paper", FIRST_AT, seed).name for seed in SEEDS]
    if curves.keys().isdisjoint(names):
        raise NoModelsError(", ".join(names))
    config = bench.cluster(FIRST_AT)
    schedulers = bench.tuned(config, Objective.SLOWDOWN)
    lines: dict[str, Any] = {}
    for seed in SEEDS:
        held_back = draw_jobs(config, 100, seed, Purpose.VALIDATION)
        for name, scheduler in schedulers.items():
            slowdown = evaluate(scheduler, config, held_back, bench.seed).slowdown.mean()
            lines.setdefault(name, []).append(float(slowdown))
    return {
        "load": FIRST_AT,
        "heuristics_by_seed": lines,
        "curves": {name: curves[name] for name in names if name in curves},
    }


def _draw_figure_6(figures: Measured) -> Figure:
    figure, (slowdown, reward) = panels(2)
    for number, rows in enumerate(figures["curves"].values()):
        checked = [row for row in rows if "slowdown" in row]
        at = [row["iteration"] + 1 for row in checked]
        values = [row["slowdown"] for row in checked]
        label = "DeepRM, each training" if number == 0 else None
        slowdown.plot(at, values, color=COLOURS["deeprm"], lw=0.9, label=label)
        for key, colour in (("max_reward", "tab:purple"), ("mean_reward", COLOURS["deeprm"])):
            has_key = [row for row in rows if key in row]
            line = [row["iteration"] + 1 for row in has_key], [row[key] for row in has_key]
            name = key.replace("_", " ") if number == 0 else None
            reward.plot(*line, color=colour, lw=0.7, label=name)
    for name, values in figures["heuristics_by_seed"].items():
        mean = sum(values) / len(values)
        slowdown.axhline(mean, color=COLOURS[name], ls="--", lw=1, label=LABELS[name])
    slowdown.set(xlabel="iteration", ylabel="average slowdown, held-back job sets")
    reward.set(xlabel="iteration", ylabel="total reward")
    slowdown.legend()
    if reward.lines:
        reward.legend()
    return figure


def figure_7(bench: Bench) -> dict[str, Any]:
    """Measure what is withheld at 110 %, and the effect on small and on large jobs."""
    heuristics = bench.heuristics(bench.cluster(HELD_AT), Objective.SLOWDOWN)
    learned = bench.learned("slowdown", HELD_AT)
    if not learned:
        raise NoModelsError(Training("slowdown", HELD_AT, 0).name)
    outcomes = [outcome for plays in learned for outcome in plays.outcomes]

    def by_duration(chosen: Callable[[Outcome], Bool]) -> dict[str, int]:
        durations = np.concatenate([outcome.duration[chosen(outcome)] for outcome in outcomes])
        values, counts = np.unique(durations, return_counts=True)
        return {str(value): int(count) for value, count in zip(values, counts, strict=True)}

    def slowdown(chosen: Callable[[Int32], Bool]) -> dict[str, Any]:
        def of(outcome: Outcome) -> Float64:
            return mean_of_chosen(outcome.job_slowdown, chosen(outcome.duration))

        return {
            "deeprm": mean_of(_values(learned, of)).to_json(),
            **{name: mean_of(of(heuristics[name])[None]).to_json() for name in ("hold", "tetris")},
        }

    return {
        "load": HELD_AT,
        "trainings": len(learned),
        "held_steps": mean_of(_values(learned, lambda outcome: outcome.held_steps)).to_json(),
        "withheld_jobs_by_duration": by_duration(lambda outcome: outcome.held),
        "jobs_by_duration": by_duration(lambda outcome: outcome.duration > 0),
        "slowdown": {
            "small": slowdown(lambda duration: (duration > 0) & (duration <= 3)),
            "large": slowdown(lambda duration: duration > 3),
        },
    }


def _draw_figure_7(figures: Measured) -> Figure:
    figure, (withheld, slowdown) = panels(2)
    counts = figures["withheld_jobs_by_duration"]
    total = sum(counts.values())
    shares = [count / total for count in counts.values()]
    withheld.bar([int(steps) for steps in counts], shares, color=COLOURS["deeprm"])
    withheld.set(xlabel="duration of withheld jobs, steps", ylabel="share of them")
    for shift, name in ((-0.26, "deeprm"), (0.0, "hold"), (0.26, "tetris")):
        entries = [figures["slowdown"][size][name] for size in ("small", "large")]
        at = [shift, 1 + shift]
        means = [entry["mean"] for entry in entries]
        label = LABELS.get(name, "DeepRM")
        slowdown.bar(at, means, 0.24, yerr=errors(entries), color=COLOURS[name], label=label)
    slowdown.set_xticks([0, 1], ["small jobs", "large jobs"])
    slowdown.set(ylabel="average slowdown")
    slowdown.legend()
    return figure


def sizes(bench: Bench) -> dict[str, Any]:
    """Slowdown on clusters of other sizes, of one network on numbers that was trained on the first.

    The jobs stay as they are, and more of them come, so that the load does. Not in the paper.
    """
    models = bench.models.of("compact", SIZES_AT)
    slowdowns: dict[str, Any] = {}
    for times, slots in SIZES.items():
        config = replace(
            bench.cluster(SIZES_AT),
            capacity=times * PAPER.capacity,
            slots=slots,
            arrival_trials=times * PAPER.arrival_trials,
        )
        learned = [bench.played(model, config) for model in models]
        slowdowns[str(times)] = bench.slowdowns(config, {"deeprm": learned})
    return {"load": SIZES_AT, "sizes": slowdowns}


FIGURES: Mapping[str, tuple[Callable[[Bench], dict[str, Any]], Callable[[Measured], Figure]]] = {
    "figure4": (
        figure_4,
        lambda figures: _lines(figures["loads"], "load in percent", "DeepRM", int),
    ),
    "figure5": (figure_5, _draw_figure_5),
    "figure6": (figure_6, _draw_figure_6),
    "figure7": (figure_7, _draw_figure_7),
    "sizes": (
        sizes,
        lambda figures: _lines(
            figures["sizes"], "size of the cluster (trained at 1)", "DeepRM on numbers", str
        ),
    ),
}
"""how each is measured and drawn, by name; those of the paper by their number there"""


def picture(config: Config, model: Path | None, seed: int, step: int, output: Path) -> None:
    """Write the first state at or after a time step of a test episode, as PNG.

    Raises StudyError if the episode is over before, RunError if the file cannot be written.
    """
    scheduler = SJF if model is None else load_scheduler(model, config)
    episodes = Episodes(config, draw_jobs(config, 1, seed, Purpose.TEST))
    play_up_to(scheduler, episodes, seed, episodes.state.time, step, "step")
    pixels = rgb(episodes)
    height, width = pixels.shape[:2]
    figure, (axes,) = panels(1)
    figure.set_size_inches(width / _INCH + 0.6, height / _INCH + 1.0)
    axes.imshow(pixels, interpolation="nearest")
    axes.set_axis_off()

    # Above: each slot's job, and the backlog count.
    units = "/".join(str(capacity) for capacity in dict.fromkeys(config.capacities))
    machines = [f"machine {number + 1} of\n{units} units" for number in range(config.machines)]
    if config.machines == 1:
        machines = [f"cluster of\n{units} units"]
    slots = [
        f"slot {number + 1}\n" + ("empty" if job == NONE else f"job {job}")
        for number, job in enumerate(episodes.state.slot[0].tolist())
    ]
    names = [*machines, *slots, f"{episodes.backlog(ONLY)[0]} more\nwait"]
    for (left, right), name in zip(panel_corners(episodes), names, strict=True):
        axes.text((left + right) / 2, GAP - 3, name, ha="center", va="bottom", **_SMALL)

    # To the left: the time steps and the resource of each row.
    for resource in range(config.resources):
        top = resource * (config.horizon * CELL + 2 + 2 * GAP) + GAP
        for ahead in (0, config.horizon // 2, config.horizon):
            axes.text(GAP - 3, top + ahead * CELL, str(ahead), ha="right", va="center", **_SMALL)
        label = f"resource {resource + 1}\nsteps ahead"
        middle = top + config.horizon * CELL / 2
        axes.text(-18, middle, label, ha="center", va="center", rotation=90, **_SMALL)

    jobs = np.unique([machine_cells(episodes, number, 0) for number in range(config.machines)])
    running = [Patch(color=job_colour(j), label=f"job {j}") for j in jobs.tolist() if j >= 0]
    if running:
        figure.legend(
            handles=running,
            loc="outside lower left",
            title="in the cluster",
            fontsize=7,
            title_fontsize=7,
            ncols=12,
        )
    figure.suptitle(f"time step {int(episodes.state.time[0])}", fontsize=9)
    save_figure(figure, output, "png", RunError)
