"""The page: one HTML file with everything in it, which asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from decima.report.comparison import charts, summary, table
from decima.report.gantt import Run, gantt, runs_in
from decima.report.results import FIGURES, Results
from files.errors import FileError
from files.writing import write_whole
from traces import Trace

_SCRIPTS = ("common.js", "table.js", "charts.js", "pixels.js", "timeline.js", "graph.js", "main.js")
"""in the order in which they are put together"""
HEADINGS = {
    "avg_jct_s": ("average JCT", "s"),
    "median_jct_s": ("median", "s"),
    "p95_jct_s": ("p95", "s"),
    "p99_jct_s": ("p99", "s"),
    "makespan_s": ("makespan", "s"),
    "avg_slowdown": ("slowdown", ""),
    "utilisation": ("utilisation", "%"),
    "fairness": ("fairness", ""),
}
"""of the columns of the comparison: name and unit"""


class PageError(FileError):
    """Results that do not belong on one page."""


class Timelines(NamedTuple):
    """Tasks of one or more runs of the first of the results."""

    table: pa.Table
    """as `decima evaluate --timeline` writes it"""
    trace: Trace | None
    """the jobs; None: no graph of a job can be drawn"""


def write_page(
    path: Path,
    results: Sequence[Results],
    timelines: Timelines | None = None,
    *,
    title: str = "Comparison of schedulers",
    command: str = "",
) -> None:
    """Write the report.

    Args:
        path: the HTML file.
        results: evaluations, a section each.
        timelines: tasks, of which two runs are drawn: `shown_runs` says which.
        title: of the page.
        command: what made it, for the foot of the page.

    Raises:
        FileError: the timeline does not belong to the results; the file cannot be written.
    """
    write_whole(path, page(results, timelines, title=title, command=command).encode())


def page(
    results: Sequence[Results], timelines: Timelines | None, *, title: str, command: str
) -> str:
    """The text of the page, as `write_page` writes it."""
    if not results:
        raise PageError("a report needs the results of at least one evaluation")
    runs = [] if timelines is None else shown_runs(results[0], timelines.table)
    drawn = [] if timelines is None else [gantt(timelines.table, run, timelines.trace)
                                          for run in runs]  # fmt: skip
    data = {"evaluations": [charts(one) for one in results], "timelines": drawn}
    script = "\n".join([_text("vendor", "uPlot.iife.min.js"), *(_text("static", name)
                                                               for name in _SCRIPTS)])  # fmt: skip
    style = _text("vendor", "uPlot.min.css") + _text("static", "page.css")
    environment = Environment(
        loader=PackageLoader("decima.report"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters |= {"figure": figure_text, "interval": interval_text}
    return environment.get_template("page.html").render(
        title=title,
        command=command,
        evaluations=[(one, table(one)) for one in results],
        summary=summary(results) if len(results) > 1 else {},
        figures=[(name, *HEADINGS[name]) for name in FIGURES],
        timelines=drawn,
        script=Markup(script),  # noqa: S704 - our own files
        style=Markup(style),  # noqa: S704
        data=Markup(_embedded(data)),  # noqa: S704 - `_embedded` escapes
        licence=_text("vendor", "uPlot-LICENSE"),
        policy=(
            "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
            f"script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}'"
        ),
    )


def shown_runs(results: Results, table: pa.Table) -> list[Run]:
    """The runs to draw: of the first policy and of the other one with the least average JCT, on the
    first sequence that the timeline holds of both.

    Raises:
        PageError: the timeline holds no run of these results.
    """
    there = [run for run in runs_in(table) if run.policy in results.policies
             and run.sequence < len(results.sequences)]  # fmt: skip
    if not there:
        raise PageError("the timeline holds no run of the first of these results")
    sequence = min(run.sequence for run in there)
    own = {run.policy for run in there if run.sequence == sequence}
    others = [name for name in results.policies if name in own and name != results.reference]
    others.sort(key=lambda name: float(results.policies[name].figures["avg_jct_s"].mean()))
    names = ([results.reference] if results.reference in own else []) + others
    return [Run(name, sequence) for name in names[:2]]


def figure_text(value: float, unit: str) -> str:
    """A figure as the table has it."""
    if unit == "%":
        return f"{100 * value:.0f} %"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if unit == "s" else f"{value:.2f}"


def interval_text(bounds: tuple[float, float] | None, unit: str) -> str:
    """A 95 % interval, or nothing."""
    if bounds is None:
        return ""
    return f"[{figure_text(bounds[0], unit)}, {figure_text(bounds[1], unit)}]"


def _embedded(data: Any) -> str:
    """JSON that may stand in a script element, whatever names it holds."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _text(folder: str, name: str) -> str:
    return resources("decima.report").joinpath(folder, name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
