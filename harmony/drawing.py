"""A cluster as a picture: who is where."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from decima.rl.colours import job_colour
from decima.rl.drawing import panels
from harmony.clusters import Clusters
from harmony.measured import measured

_LEGEND_ROWS = 16


def picture_of(clusters: Clusters) -> Figure:
    """The tasks on each server of the first episode: a colour and a number for each job."""
    state, models = clusters.state, measured(clusters.config.table_file).models
    running = sorted(state.running[0, : state.running_count[0]].tolist())
    figure, (axes,) = panels(1)
    figure.set_size_inches(*_size(clusters.config.servers, len(running)))
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
        ncols=_columns(len(running)),
    )
    return figure


def _size(servers: int, jobs: int) -> tuple[float, float]:
    """Inches: a third for each server, and room for the columns of the legend."""
    return max(4.6, 0.33 * servers) + 1.4 * _columns(jobs), 3.6


def _columns(jobs: int) -> int:
    return -(-max(jobs, 1) // _LEGEND_ROWS)
