"""Drawing of a job: stages as boxes from left to right, its critical path in colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path as Curve

from traces.errors import TraceError
from traces.files.pictures import save_figure
from traces.graph import critical_path, layers
from traces.model import Job, Stage

FORMATS = (".svg", ".png")
MAX_STAGES = 400  # more boxes than this cannot be distinguished in one picture

_BOX_WIDTH, _BOX_HEIGHT = 1.75, 0.62  # inches, as everything here
_COLUMN_GAP, _ROW_GAP = 0.75, 0.28
_MARGIN, _HEADER = 0.25, 0.68
_NAME_LENGTH = 20
_PLAIN, _CRITICAL, _FILL, _CRITICAL_FILL = "#5b6b7d", "#c2410c", "#eef2f6", "#ffedd5"
_SWEEPS = 12


class _Node(NamedTuple):
    """A stage, or a waypoint of an edge that crosses a column (then `stage` is None)."""

    column: int
    stage: int | None
    edge: tuple[int, int] | None = None


def draw_job(job: Job, path: Path) -> None:
    """Draw `job` to an SVG or PNG file, chosen by the suffix of `path`."""
    if path.suffix.lower() not in FORMATS:
        raise TraceError(f"{path}: suffix {path.suffix!r} is none of {', '.join(FORMATS)}")
    if len(job.stages) > MAX_STAGES:
        raise TraceError(
            f"job {job.name!r} has {len(job.stages)} stages, at most {MAX_STAGES} can be drawn"
        )
    chains = _chains(job)
    with mpl.rc_context({"font.size": 8.5}):
        figure = _figure(job, chains, _heights(chains))
        save_figure(figure, path, path.suffix.lower()[1:], TraceError)


def format_ms(duration_ms: float) -> str:
    """Format a duration: `120 ms`, `1.5 s`, `3.2 min`, `5.1 h`."""
    if duration_ms < 1_000:
        return f"{duration_ms:.3g} ms"
    for unit, size_ms, limit_ms in (("s", 1e3, 1.2e5), ("min", 6e4, 7.2e6)):
        if duration_ms < limit_ms:
            return f"{duration_ms / size_ms:.1f} {unit}"
    return f"{duration_ms / 3.6e6:.1f} h"


def _chains(job: Job) -> list[list[_Node]]:
    """Each edge as the nodes it visits, one in each column; a stage without edges alone."""
    # A stage is as far right as its children allow, so that edges stay short.
    column = list(layers(job))
    for index in reversed(job.topological_order):
        if job.children[index]:
            column[index] = min(column[child] for child in job.children[index]) - 1
    nodes = [_Node(column[index], index) for index in range(len(job.stages))]
    chains = [[node] for node in nodes]
    for child, stage in enumerate(job.stages):
        for parent in stage.parents:
            between = range(column[parent] + 1, column[child])
            waypoints = [_Node(place, None, (parent, child)) for place in between]
            chains.append([nodes[parent], *waypoints, nodes[child]])
    return chains


def _heights(chains: Sequence[Sequence[_Node]]) -> dict[_Node, float]:
    """Vertical place of every node, neighbours close together and edges mostly uncrossed.

    Columns are swept to and fro; in each, nodes move to the mean height of their neighbours in the
    column just visited and keep their distance (the barycentre heuristic of layered drawing).
    """
    neighbours: dict[_Node, list[_Node]] = {node: [] for chain in chains for node in chain}
    for chain in chains:
        for left, right in pairwise(chain):
            neighbours[left].append(right)
            neighbours[right].append(left)
    columns: list[list[_Node]] = [[] for _ in range(max(node.column for node in neighbours) + 1)]
    for node in neighbours:
        columns[node.column].append(node)
    height = {node: float(place) for nodes in columns for place, node in enumerate(nodes)}
    for sweep in range(_SWEEPS):
        toward = -1 if sweep % 2 == 0 else 1  # even sweeps go right and look left
        for nodes in columns[::-toward]:
            wish: dict[_Node, float] = {}
            for node in nodes:
                column = node.column + toward
                near = [height[other] for other in neighbours[node] if other.column == column]
                wish[node] = sum(near) / len(near) if near else height[node]
            nodes.sort(key=lambda node: wish[node])
            _spread(nodes, wish, height)
    return height


def _spread(nodes: Sequence[_Node], wish: dict[_Node, float], height: dict[_Node, float]) -> None:
    """Set the heights of a column near its wishes, in order, without overlaps."""
    previous: _Node | None = None
    for node in nodes:
        low = float("-inf")
        if previous is not None:
            are_stages = previous.stage is not None and node.stage is not None
            low = height[previous] + (_BOX_HEIGHT + _ROW_GAP) * (1.0 if are_stages else 0.65)
        height[node] = max(wish[node], low)
        previous = node
    shift = sum(wish[node] - height[node] for node in nodes) / len(nodes)
    for node in nodes:
        height[node] += shift


def _figure(job: Job, chains: Sequence[Sequence[_Node]], height: dict[_Node, float]) -> Figure:
    low, high = min(height.values()), max(height.values())
    columns = max(node.column for node in height) + 1
    width = columns * (_BOX_WIDTH + _COLUMN_GAP) - _COLUMN_GAP + 2 * _MARGIN
    width = max(width, 4.5)
    total_height = high - low + _BOX_HEIGHT + 2 * _MARGIN + _HEADER
    figure = Figure(figsize=(width, total_height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(-_MARGIN - _BOX_WIDTH / 2, width - _MARGIN - _BOX_WIDTH / 2)
    axes.set_ylim(high + _BOX_HEIGHT / 2 + _MARGIN, low - _BOX_HEIGHT / 2 - _MARGIN - _HEADER)
    axes.axis("off")
    path = critical_path(job)
    critical_edges = set(pairwise(path))
    for chain in chains[len(job.stages) :]:
        is_critical = (chain[0].stage, chain[-1].stage) in critical_edges
        stops = [(_x(node), height[node]) for node in chain]
        vertices, codes = zip(*_curve(stops), strict=True)
        arrow = FancyArrowPatch(
            path=Curve(vertices, codes),
            arrowstyle="-|>",
            mutation_scale=9,
            color=_CRITICAL if is_critical else _PLAIN,
            linewidth=1.6 if is_critical else 0.9,
            shrinkA=0,
            shrinkB=0,
            zorder=2 if is_critical else 1,
        )
        axes.add_patch(arrow)
    for node, y in height.items():
        if node.stage is not None:
            _draw_stage(axes, (_x(node), y), job.stages[node.stage], node.stage in path)
    y = low - _BOX_HEIGHT / 2 - _HEADER
    left = -_BOX_WIDTH / 2
    stages = "1 stage" if len(job.stages) == 1 else f"{len(job.stages)} stages"
    facts = f"{stages}, {job.num_tasks:,} tasks, work {format_ms(job.work_ms)}"
    path_length = f"critical path {format_ms(max(job.critical_path_ms))} of mean task durations"
    style: dict[str, Any] = {"ha": "left", "va": "top", "parse_math": False}
    axes.text(left, y, job.name, weight="bold", fontsize=11, **style)
    axes.text(left, y + 0.24, facts, color="#333333", **style)
    axes.text(left, y + 0.41, path_length, color=_CRITICAL, **style)
    return figure


def _x(node: _Node) -> float:
    return node.column * (_BOX_WIDTH + _COLUMN_GAP)


def _draw_stage(axes: Axes, centre: tuple[float, float], stage: Stage, critical: bool) -> None:
    x, y = centre
    box = FancyBboxPatch(
        (x - _BOX_WIDTH / 2, y - _BOX_HEIGHT / 2),
        _BOX_WIDTH,
        _BOX_HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.08",
        facecolor=_CRITICAL_FILL if critical else _FILL,
        edgecolor=_CRITICAL if critical else _PLAIN,
        linewidth=1.6 if critical else 0.9,
        zorder=3,
    )
    axes.add_patch(box)
    name = stage.name if len(stage.name) <= _NAME_LENGTH else f"{stage.name[: _NAME_LENGTH - 1]}…"
    tasks = "1 task" if stage.num_tasks == 1 else f"{stage.num_tasks:,} tasks"
    label = f"{tasks} of {format_ms(stage.mean_ms)}"
    # A job's names are data: `parse_math` off keeps a dollar sign from becoming a formula.
    style: dict[str, Any] = {"ha": "center", "va": "center", "parse_math": False, "zorder": 4}
    axes.text(x, y - 0.13, name, weight="bold", **style)
    axes.text(x, y + 0.14, label, color="#333333", **style)


def _curve(stops: Sequence[tuple[float, float]]) -> Iterator[tuple[tuple[float, float], np.uint8]]:
    """Vertices and path codes of a smooth line from the first box to the last, by the waypoints."""
    half, bend = _BOX_WIDTH / 2, _COLUMN_GAP / 2
    yield (stops[0][0] + half, stops[0][1]), Curve.MOVETO
    for (x0, y0), (x1, y1) in pairwise(stops):
        yield (x0 + half + bend, y0), Curve.CURVE4
        yield (x1 - half - bend, y1), Curve.CURVE4
        yield (x1 - half, y1), Curve.CURVE4
        if (x1, y1) != stops[-1]:
            yield (x1 + half, y1), Curve.LINETO
