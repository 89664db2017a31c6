"""The state of a cluster as a picture with labels, which `deeprm.render` leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from decima.rl.colours import job_colour
from decima.rl.drawing import panels, save_figure
from decima.rl.study.lockstep import play_up_to
from decima.rl.study.streams import Purpose
from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.jobs import draw_jobs
from deeprm.models import load_scheduler
from deeprm.render import CELL, GAP, machine_cells, panel_corners, rgb
from deeprm.schedulers import SJF
from deeprm.tables import NONE

_INCH = 110.0
"""pixels of one"""
_SMALL: dict[str, Any] = {"fontsize": 7, "clip_on": False}


def picture(config: Config, model: Path | None, seed: int, step: int, output: Path) -> None:
    """Write the first state at or after a time step of a test episode, as PNG.

    Raises:
        StudyError: the episode is over before.
        RunError: the file cannot be written.
    """
    scheduler = SJF if model is None else load_scheduler(model, config)
    episodes = Episodes(config, draw_jobs(config, 1, seed, Purpose.TEST))
    play_up_to(scheduler, episodes, seed, episodes.state.time, step, "step")
    save_figure(picture_of(episodes), output, "png")


def picture_of(episodes: Episodes) -> Figure:
    """The state of the first episode, with labels."""
    pixels = rgb(episodes)
    height, width = pixels.shape[:2]
    figure, (axes,) = panels(1)
    figure.set_size_inches(width / _INCH + 0.6, height / _INCH + 1.0)
    axes.imshow(pixels, interpolation="nearest")
    axes.set_axis_off()
    _label_columns(axes, episodes)
    _label_rows(axes, episodes)
    machines = range(episodes.config.machines)
    jobs = np.unique([machine_cells(episodes, 0, machine, 0) for machine in machines])
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
    return figure


def _label_columns(axes: Axes, episodes: Episodes) -> None:
    """Write each slot's job and the backlog count above the cluster."""
    config, corners = episodes.config, panel_corners(episodes)
    beyond = int(episodes.backlog(np.zeros(1, np.int32))[0])
    slots = [
        f"slot {number + 1}\n" + ("empty" if job == NONE else f"job {job}")
        for number, job in enumerate(episodes.state.slot[0].tolist())
    ]
    units = "/".join(str(capacity) for capacity in dict.fromkeys(config.capacities))
    machines = [f"machine {number + 1} of\n{units} units" for number in range(config.machines)]
    if config.machines == 1:
        machines = [f"cluster of\n{units} units"]
    names = [*machines, *slots, f"{beyond} more\nwait"]
    for (left, right), name in zip(corners, names, strict=True):
        axes.text((left + right) / 2, GAP - 3, name, ha="center", va="bottom", **_SMALL)


def _label_rows(axes: Axes, episodes: Episodes) -> None:
    """Write the time steps and the resource of each row to the left of the cluster."""
    config = episodes.config
    height = config.horizon * CELL + 2 + 2 * GAP
    for resource in range(config.resources):
        top = resource * height + GAP
        for step in (0, config.horizon // 2, config.horizon):
            axes.text(GAP - 3, top + step * CELL, str(step), ha="right", va="center", **_SMALL)
        label = f"resource {resource + 1}\nsteps ahead"
        middle = top + config.horizon * CELL / 2
        axes.text(-18, middle, label, ha="center", va="center", rotation=90, **_SMALL)
