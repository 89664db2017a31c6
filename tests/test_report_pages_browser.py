"""Reports in a real browser: on paper, on a small screen, with few values, of chosen runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decima.report import comparison_sections, results_of, write_page
from decima.report.forest import forest
from decima.report.section import Lines, Section, Series
from decima.report.training import training_section
from decima.rl.statistics import Estimate
from decima.training.config import TrainConfig
from tests.browser import (
    complaints,
    open_page,
    prefer,
    resize,
    until,
)
from tests.pages import HOSTILE, decisions, results_json, two_sequences

PAPER_PX = 700
"""A4 and Letter in portrait, without their margins"""
LONG = "runs/a-folder-with-a-long-name/another-with-a-long-name/model.safetensors"
_TICKS = """
const words = (axis) => (axis._values || []).filter((word) => word !== "");
return plots.map(([plot]) => plot.axes.map(words));
"""
_COLOURS = """
const [plot] = plots[arguments[0]], { left, top, width, height } = plot.bbox;
const { data } = plot.ctx.getImageData(left, top, width, height);
const found = new Set();
for (let i = 0; i < data.length; i += 4)
  if (data[i + 3] > 250) found.add(data.slice(i, i + 3).join());
return [...found];
"""
_CUT = """
const right = document.documentElement.clientWidth, isCut = (one) => {
  const box = one.getBoundingClientRect();
  const isInside = box.width > 0 && box.left >= -1 && box.right <= right + 1;
  return !isInside || one.scrollHeight > one.clientHeight + 1;
};
const found = [...document.querySelectorAll(arguments[0])].filter(isCut);
return found.map((one) => one.outerHTML.slice(0, 200));
"""


@pytest.fixture
def small(driver: Any) -> Iterator[Any]:
    """A browser with a screen as small as a telephone's, then as large as it was."""
    resize(driver, 390)
    yield driver
    resize(driver, 1280)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def comparison() -> list[Section]:
    """Eight policies, of which one has a long name, on two sequences."""
    content = results_json()
    for name in (*"cdefg", LONG):
        content["config"]["policies"].append(name)
        content["policies"][name] = content["policies"]["b"]
    return comparison_sections([results_of(content, "here")], two_sequences())


def show(driver: Any, path: Path, sections: list[Section]) -> None:
    write_page(path, sections, title="Report", command="")
    open_page(driver, path)


def lines(x: list[float], y: list[float | None], **more: Any) -> Section:
    """A chart of one line."""
    chart = Lines("Chart", Series(x, {"line": y}), "x", "y", **more)
    content = {"sentences": [], "caption": "", "headings": [], "rows": []}
    return Section("one", "One", "table.html", content, charts=[chart])


# --- paper ---------------------------------------------------------------------------------------


def test_a_printed_table_has_its_headings_and_all_columns(small: Any, tmp_path: Path) -> None:
    """Nothing is beyond the paper's edge, and what only a mouse needs is not there."""
    resize(small, PAPER_PX)
    show(small, tmp_path / "page.html", comparison())
    small.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert small.execute_script(_CUT, ".scroll :is(th, td, button), canvas") == []
    headings = small.execute_script(
        "return [...document.querySelectorAll('table thead th')].map((one) => one.innerText.trim())"
    )
    assert len(headings) == 9
    assert headings[0] == "policy"
    assert headings[-1] == "fairness"
    hidden = small.execute_script(
        "return [...document.querySelectorAll('select, nav, #theme')]"
        ".every((one) => one.getClientRects().length === 0)"
    )
    assert hidden


def test_a_dark_page_is_printed_on_white(driver: Any, tmp_path: Path) -> None:
    """And is dark again afterwards."""
    resize(driver, 1280)
    prefer(driver, "light")
    show(driver, tmp_path / "page.html", comparison())
    driver.execute_script("document.getElementById('theme').click()")
    background = "return getComputedStyle(document.body).backgroundColor"
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert driver.execute_script(background) == "rgb(255, 255, 255)"
    driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert driver.execute_script(background) == "rgb(20, 23, 27)"


# --- small screens -------------------------------------------------------------------------------


def test_nothing_of_a_legend_or_caption_is_hidden_on_a_small_screen(
    small: Any, tmp_path: Path
) -> None:
    show(small, tmp_path / "page.html", comparison())
    assert small.execute_script("return document.querySelectorAll('.u-series').length") > 20
    seen = ".u-legend, .u-series, figcaption, .caption, .unit, .result, .choices select"
    assert small.execute_script(_CUT, seen) == []


COMMAND = "decima evaluate --policies " + ",".join(f"a_policy_{number}" for number in range(40))


@pytest.mark.parametrize("kind", ["comparison", "training", "forest"])
def test_no_page_scrolls_sideways_on_a_small_screen(small: Any, tmp_path: Path, kind: str) -> None:
    """Whatever the command at its foot is, and however long names and intervals are."""
    if kind == "comparison":
        sections = [*comparison(), decisions()]
    elif kind == "training":
        sections = [training_section(training(tmp_path / "run"))]
    else:
        content = {"sentences": [], "caption": "", "headings": [], "rows": []}
        rows = {LONG * 3: Estimate(-1234.5, (-98765.4, 12345.6)), "b": Estimate(0.0, None)}
        sections = [Section("one", "One", "table.html", content, forest("Forest", rows))]
    path = tmp_path / "page.html"
    write_page(path, sections, title="Report", command=COMMAND)
    open_page(small, path)
    assert small.execute_script("return document.documentElement.scrollWidth") <= 390
    assert COMMAND in small.execute_script("return document.body.innerText")


def test_a_legend_has_colons_before_values_only(driver: Any, tmp_path: Path) -> None:
    """Under no mouse there is no value: names alone, and not that of the axis."""
    resize(driver, 1280)
    show(driver, tmp_path / "page.html", [lines([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])])
    words = """
        const content = (one, part) => getComputedStyle(one, part).content.replace(/none|"/g, "");
        return [...document.querySelectorAll(".u-series")]
          .filter((row) => getComputedStyle(row).visibility === "visible")
          .map((row) => [...row.cells].map((cell) =>
            content(cell, "::before") + cell.textContent + content(cell, "::after")).join(""));
    """
    assert driver.execute_script(words) == ["line"]
    driver.execute_script("plots[0][0].setCursor({ left: plots[0][0].valToPos(2, 'x'), top: 9 })")
    assert driver.execute_script(words) == ["x: 2", "line: 5"]


# --- few values, small values, large values ------------------------------------------------------


def training(path: Path) -> Path:
    """Two iterations, of which the first was validated."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(TrainConfig().to_json()))
    every = {"loss": 0.0, "divergence": 2e-5, "learning_rate": 1e-3, "reward_rate": -10.5}
    rows: list[dict[str, float]] = [
        {"iteration": 0, "plans": 100, "elapsed_s": 10, **every,
         "validation/score": -10.0, "validation/above_es_rule": 20.0,
         "validation/one_percent": -10.0, "validation/two_percent": -5.0},
        {"iteration": 1, "plans": 300, "elapsed_s": 20, **every, "divergence": 2.1e-5},
    ]  # fmt: skip
    (path / "metrics.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def test_charts_of_one_validation_show_its_points(driver: Any, tmp_path: Path) -> None:
    """The first two charts of a training: something has each line's colour."""
    resize(driver, 1280)
    section = training_section(training(tmp_path / "run"))
    show(driver, tmp_path / "page.html", [section])
    for chart in (0, 1):
        assert {"0,114,178", "213,94,0"} <= set(driver.execute_script(_COLOURS, chart))
    ticks = driver.execute_script(_TICKS)
    assert ticks[0][0] == ["1"]
    assert ticks[2][0] == ["1", "2"]


@pytest.mark.parametrize("width", [1280, 390])
def test_ticks_never_repeat_and_iterations_are_whole(
    driver: Any, tmp_path: Path, width: int
) -> None:
    """Of a training whose divergence is near 0 and whose learning rate is constant."""
    resize(driver, width)
    section = training_section(training(tmp_path / "run"))
    show(driver, tmp_path / "page.html", [section])
    for across, up in driver.execute_script(_TICKS):
        assert set(across) <= {"1", "2"}
        assert len(up) > 1
        assert len(set(up)) == len(up), up
    resize(driver, 1280)


@pytest.mark.parametrize("isolated", [1e-9, 1.0, 7.0, 0.00031, 123456.0, 2.5e6, 8e15, 1e17])
def test_an_isolated_value_of_any_size_is_drawn_with_ticks(
    driver: Any, tmp_path: Path, isolated: float
) -> None:
    show(driver, tmp_path / "page.html", [lines([0, 1, 2], [None, isolated, None])])
    ((_, up),) = driver.execute_script(_TICKS)
    assert len(set(up)) == len(up) > 1
    assert "0,114,178" in driver.execute_script(_COLOURS, 0)
    assert complaints(driver) == []


def test_logarithmic_ticks_are_written_alike(driver: Any, tmp_path: Path) -> None:
    """From a hundred to a hundred thousand, without exponents beside plain numbers."""
    section = lines([100.0, 90_000.0], [100.0, 90_000.0], log_x=True, log_y=True)
    show(driver, tmp_path / "page.html", [section])
    for words in driver.execute_script(_TICKS)[0]:
        assert words == ["100", "1,000", "10,000", "100,000"]


def test_a_chart_without_values_tells_so(driver: Any, tmp_path: Path) -> None:
    show(driver, tmp_path / "page.html", [lines([0.0], [None])])
    words = driver.execute_script("return document.querySelector('.plot').textContent")
    assert words == "Nothing to draw: there are no values."


# --- a choice of runs ----------------------------------------------------------------------------


def choose(driver: Any, select: str, value: str) -> None:
    driver.execute_script(
        """
        const select = [...document.querySelectorAll("#sequence, select.policy")][arguments[0]];
        select.value = arguments[1];
        select.dispatchEvent(new Event("change"));
        """,
        ["sequence", "upper", "lower"].index(select),
        value,
    )


def shown_runs(driver: Any) -> str:
    return str(
        driver.execute_script(
            "return CHARTS.map((chart) => `${chart.run.policy} ${chart.run.sequence}`).join()"
        )
    )


def test_any_policy_and_sequence_can_be_chosen(driver: Any, tmp_path: Path) -> None:
    """The captions and what is drawn follow; a choice that is possible is kept."""
    sections = [*comparison(), decisions()]
    show(driver, tmp_path / "page.html", sections)
    assert shown_runs(driver) == "a 0,b 0"
    choose(driver, "upper", "b")
    until(driver, "return CHARTS[0].run.policy === 'b'")
    choose(driver, "lower", "a")
    until(driver, "return CHARTS[1].run.policy === 'a'")
    choose(driver, "sequence", "1")
    until(driver, "return CHARTS.every((chart) => chart.run.sequence === 1)")
    assert shown_runs(driver) == "b 1,a 1"
    captions = driver.execute_script(
        "return [...document.querySelectorAll('.gantt figcaption')].map((one) => one.innerText)"
    )
    assert captions == [
        "b, sequence 1: 6 tasks on 2 executors", "a, sequence 1: 6 tasks on 2 executors",
    ]  # fmt: skip
    names = driver.execute_script("return CHARTS.map((chart) => chart.describe(0, 0).name)")
    assert names == ["small", "small"]
    assert complaints(driver) == []


def test_a_choice_keeps_the_part_that_is_seen_and_the_job(driver: Any, tmp_path: Path) -> None:
    """Of another policy on the same sequence; another sequence is shown from its beginning."""
    show(driver, tmp_path / "page.html", comparison())
    driver.execute_script("look(1000, 3000); choose(1)")
    choose(driver, "lower", "a")
    until(driver, "return CHARTS[1].run.policy === 'a'")
    until(driver, "return document.querySelectorAll('.graph svg').length === 2")
    assert driver.execute_script("return [VIEW.from, VIEW.to, CHOSEN.job]") == [1000, 3000, 1]
    assert HOSTILE in driver.execute_script("return document.getElementById('graphs').textContent")
    choose(driver, "sequence", "1")
    until(driver, "return CHOSEN.job === null")
    assert driver.execute_script("return [VIEW.from, VIEW.to]") == [0, 10000]


def test_a_decision_is_marked_on_its_own_sequence_only(driver: Any, tmp_path: Path) -> None:
    """Where it is of sequence 0."""
    show(driver, tmp_path / "page.html", [*comparison(), decisions()])
    pixel = """
        CHARTS[1].draw();
        const x = Math.round(MARK.time_s * 1000 / VIEW.to * CHARTS[1].canvas.width);
        return [...CHARTS[1].context.getImageData(x, 0, 1, 1).data].join();
    """
    ink = "26,29,33,255"
    assert driver.execute_script(pixel) == ink
    choose(driver, "sequence", "1")
    until(driver, "return CHARTS.every((chart) => chart.run.sequence === 1)")
    assert driver.execute_script(pixel) != ink
