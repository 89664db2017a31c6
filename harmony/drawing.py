"""A cluster as a picture: the tasks on each server."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from decima.rl.colours import job_colour
from decima.rl.drawing import panels, save_figure
from decima.rl.study.lockstep import play_up_to
from decima.rl.study.streams import Purpose
from harmony.clusters import Clusters
from harmony.config import Config
from harmony.jobs import draw_jobs
from harmony.learned import Learned
from harmony.measured import measured
from harmony.models import load_model
from harmony.schedulers import Scheduler, Tiresias

_LEGEND_ROWS = 16


def picture(config: Config, model: Path | None, seed: int, interval: int, output: Path) -> None:
    """Write the tasks on each server, a colour and a number for each job, at an interval, as PNG.

    Raises:
        StudyError: the episode is over before.
        RunError: the file cannot be written.
    """
    scheduler: Scheduler
    if model is None:
        scheduler = Tiresias(config)
    else:
        scheduler = Learned(load_model(model).network.policy, config)
    jobs = draw_jobs(config, 1, seed, Purpose.TEST)
    clusters = Clusters(config, jobs, seed=seed, priority=scheduler.priority(jobs))
    play_up_to(scheduler, clusters, seed, clusters.state.interval, interval, "interval")
    save_figure(picture_of(clusters), output, "png")


def picture_of(clusters: Clusters) -> Figure:
    """The tasks on each server of the first episode: a colour and a number for each job."""
    state, models = clusters.state, measured(clusters.config.table_file).models
    running = sorted(state.running[0, : state.running_count[0]].tolist())
    figure, (axes,) = panels(1)
    # A third of an inch for each server, and room for the columns of the legend.
    columns = -(-max(len(running), 1) // _LEGEND_ROWS)
    figure.set_size_inches(max(4.6, 0.33 * clusters.config.servers) + 1.4 * columns, 3.6)
    bottom = np.zeros(clusters.config.servers)
    for rank, job in enumerate(running):
        tasks = state.placed[0, job].sum(axis=1)
        held = np.nonzero(tasks)[0]
        label = f"{job}  {models[int(clusters.jobs.model[0, job])]}"
        bars = axes.bar(
            held, tasks[held], bottom=bottom[held], color=job_colour(rank), ec="black", label=label
        )
        axes.bar_label(bars, [str(job)] * len(held), label_type="center", fontsize=7)
        bottom += tasks
    axes.set(xlabel="server", ylabel="workers and parameter servers")
    axes.set_xticks(range(clusters.config.servers))
    axes.set_xlim(-0.6, clusters.config.servers - 0.4)
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
    return figure
