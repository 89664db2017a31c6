"""The page: one HTML file with everything in it, which loads nothing from the network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from decima.report.section import Section
from traces.files.names import counted
from traces.files.writing import write_whole

_SCRIPTS = (
    "common.js",
    "charts.js",
    "timeline.js",
    "graph.js",
    "decisions.js",
    "theme.js",
    "main.js",
)
"""scripts in the order of the page"""
_LIVE_SCRIPTS = ("common.js", "theme.js", "live.js")


def write_page(path: Path, sections: Sequence[Section], *, title: str, command: str) -> None:
    """Write the report; `command` stands at the foot of the page."""
    # Names that were read hold none, but a command line and others may: a lone surrogate.
    content = page(sections, title=title, command=command).encode(errors="backslashreplace")
    write_whole(path, content)


def page(sections: Sequence[Section], *, title: str, command: str) -> str:
    """The text of the page, as `write_page` writes it."""
    data = {
        "charts": [chart.to_json() for section in sections for chart in section.charts],
        "timelines": [run for section in sections for run in section.timelines],
        "graphs": {name: graph for section in sections for name, graph in section.graphs.items()},
        "decisions": [plan for section in sections for plan in section.decisions],
    }
    first = [sum(len(before.charts) for before in sections[:i]) for i in range(len(sections))]
    vendored = _text("vendor", "uPlot.iife.min.js")
    script = "\n".join([vendored, *(_text("static", name) for name in _SCRIPTS)])
    style = _text("vendor", "uPlot.min.css") + _text("static", "page.css")
    return _filled(
        "page.html",
        script,
        style,
        title=title,
        command=command,
        sections=list(zip(sections, first, strict=True)),
        data=Markup(_embedded(data)),  # noqa: S704 - `_embedded` escapes
        licence=_text("vendor", "uPlot-LICENSE"),
        policy=content_policy(script, style),
    )


def live_page(words: Mapping[str, str]) -> tuple[str, str]:
    """The page of a live scheduler, which asks its server for `status.json`, and its policy.

    The content-security policy is for a header. `words` name what is scheduled
    (`decima.spark.dashboard`).
    """
    script = "\n".join(_text("static", name) for name in _LIVE_SCRIPTS)
    style = _text("static", "page.css") + _text("static", "live.css")
    policy = content_policy(script, style) + "; connect-src 'self'"
    data = Markup(_embedded(dict(words)))  # noqa: S704 - `_embedded` escapes
    return _filled("live.html", script, style, policy=policy, words=words, data=data), policy


def content_policy(script: str, style: str) -> str:
    """Content security policy that allows this script and style only."""
    digests = (
        base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
        for content in (script, style)
    )
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        "script-src 'sha256-{}'; style-src 'sha256-{}'".format(*digests)
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("decima.report"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters |= {"figure": figure_text, "interval": interval_text, "counted": counted}
    return environment


def _filled(template: str, script: str, style: str, **content: Any) -> str:
    return (
        _environment()
        .get_template(template)
        .render(
            script=Markup(script),  # noqa: S704 - this package's files
            style=Markup(style),  # noqa: S704
            **content,
        )
    )


def figure_text(value: float, unit: str) -> str:
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
    """JSON that is safe inside a script element, with any names."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _text(folder: str, name: str) -> str:
    return resources("decima.report").joinpath(folder, name).read_text(encoding="utf-8")
