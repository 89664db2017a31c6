"""The report in a real browser: what it draws, what it answers to, what it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decima.report import comparison_sections, results_of, write_page
from decima.report.section import Lines, Section, Series, forest
from decima.report.training import training_section
from decima.rl.statistics import Estimate
from tests.browser import complaints, open_page, prefer, requests, resize, until
from tests.pages import HOSTILE, decisions, results_json, run_folder, two_runs, two_sequences


@pytest.fixture
def shown(driver: Any, tmp_path: Path) -> Any:
    """A driver that shows the report of two runs, 1280 pixels wide, in light colours."""
    path = tmp_path / "report.html"
    content = results_json(
        avg_jct_s={"a": [10.0, 12.0], "b": [9.0, 11.0]}, makespan_s={"a": [3, 4], "b": [100, 200]}
    )
    sections = comparison_sections([results_of(content, "here")], two_runs())
    sections.append(decisions())
    write_page(path, sections, title=HOSTILE, command="made so")
    resize(driver, 1280)
    prefer(driver, "light")
    complaints(driver), requests(driver)
    open_page(driver, path)
    return driver


def at(driver: Any, chart: int, executor: int, time_ms: float) -> tuple[float, float]:
    """Where a moment of an executor is on the screen."""
    place = driver.execute_script(
        """
        const chart = CHARTS[arguments[0]], box = chart.canvas.getBoundingClientRect();
        return [box.left + (arguments[2] - VIEW.from) / (VIEW.to - VIEW.from) * box.width,
                box.top + (arguments[1] + 0.5) / chart.run.executors * box.height];
        """,
        chart, executor, time_ms,
    )  # fmt: skip
    return float(place[0]), float(place[1])


def mouse(driver: Any, kind: str, x: float, y: float, **more: Any) -> None:
    driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})


def click(driver: Any, x: float, y: float) -> None:
    for kind in ("mousePressed", "mouseReleased"):
        mouse(driver, kind, x, y, button="left", clickCount=1)


def press(driver: Any, key: str) -> None:
    text = {"text": key} if len(key) == 1 else {}
    driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyDown", "key": key, **text})
    driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyUp", "key": key})


def show_timelines(driver: Any) -> None:
    driver.execute_script("document.getElementById('timelines').scrollIntoView()")
    driver.execute_script("CHARTS[0].canvas.focus({preventScroll: true})")


def test_hostile_names_stay_text_and_nothing_is_asked_of_the_network(shown: Any) -> None:
    assert requests(shown) == []
    assert complaints(shown) == []
    assert shown.title == HOSTILE
    assert shown.execute_script("return document.querySelectorAll('img').length") == 0
    assert shown.execute_script("return document.querySelector('h1').textContent") == HOSTILE


def test_the_policy_of_the_page_forbids_what_is_not_in_it(shown: Any) -> None:
    shown.execute_script(
        """
        const script = document.createElement('script');
        script.textContent = 'window.smuggled = 1';
        document.body.append(script);
        window.left = fetch('https://example.org').then(() => 'sent', () => 'refused');
        """
    )
    assert shown.execute_script("return window.smuggled === undefined")
    assert shown.execute_async_script("window.left.then(arguments[0])") == "refused"
    complaints(shown), requests(shown)  # these were asked for


def test_the_table_sorts_by_number_both_ways(shown: Any) -> None:
    order = """
        const table = document.querySelector('table.sortable');
        const heading = table.tHead.rows[0].cells[arguments[0]];
        heading.querySelector('button').click();
        const names = [...table.tBodies[0].rows].map(row => row.cells[0].textContent.trim());
        return [heading.ariaSort, names];
    """
    makespan = 6
    assert shown.execute_script(order, makespan) == ["ascending", ["a", "b"]]
    assert shown.execute_script(order, makespan) == ["descending", ["b", "a"]]
    assert shown.execute_script(order, 1) == ["ascending", ["b", "a"]]  # 10 after 11: as numbers
    assert shown.execute_script(order, 0) == ["ascending", ["a", "b"]]


def test_hovering_tells_the_task_under_the_mouse(shown: Any) -> None:
    show_timelines(shown)
    for row in two_runs().table.to_pylist():
        chart = ["a", "b"].index(row["policy"])
        middle = (row["start_ms"] + row["finish_ms"]) / 2
        mouse(shown, "mouseMoved", *at(shown, chart, row["executor"], middle))
        until(shown, "return !document.getElementById('tip').hidden")
        text = shown.execute_script("return document.getElementById('tip').textContent")
        lines = text.split("\n")
        assert lines[0] == f"job {row['job']}: {row['name']}"
        assert lines[2] == f"executor {row['executor']}"
        start, finish = row["start_ms"] / 1000, row["finish_ms"] / 1000
        assert f"({finish - start:.2f} s)" in lines[3]
        stages = [["only"], ["top", "left", HOSTILE, "bottom"]][row["job"]]
        assert lines[1] == f"stage {stages[row['stage']]}"
    mouse(shown, "mouseMoved", *at(shown, 0, 1, 3000.0))
    until(shown, "return document.getElementById('tip').hidden")


def test_both_charts_keep_the_same_time_when_one_is_zoomed(shown: Any) -> None:
    """The wheel over the first; a task's left edge then is at the same place in both."""
    show_timelines(shown)
    x, y = at(shown, 0, 0, 2500.0)
    for _ in range(4):
        mouse(shown, "mouseWheel", x, y, deltaX=0, deltaY=-100)
    until(shown, "return VIEW.to - VIEW.from < 5000")
    assert at(shown, 0, 0, 2500.0)[0] == pytest.approx(x, abs=1.5)
    assert at(shown, 1, 0, 2500.0)[0] == pytest.approx(x, abs=1.5)
    # What is drawn, not what is computed: the pixel columns where job 1 begins under each policy.
    shown.execute_script("CHARTS.forEach(chart => chart.draw())")
    edge = """
        const chart = CHARTS[arguments[0]], width = chart.canvas.width;
        const x = Math.round((arguments[2] - VIEW.from) / (VIEW.to - VIEW.from) * width);
        const y = Math.floor((arguments[1] + 0.5) * chart.rowHeight);
        const pixel = (at) => [...chart.context.getImageData(at, y, 1, 1).data].join();
        return [pixel(x - 3), pixel(x + 3)];
    """
    for chart, executor, time_ms in ((0, 0, 2000.0), (1, 0, 3000.0)):
        before, after = shown.execute_script(edge, chart, executor, time_ms)
        assert before != after, (chart, executor, time_ms)


def test_a_click_shows_the_jobs_graph_and_the_path_that_decided(shown: Any) -> None:
    show_timelines(shown)
    click(shown, *at(shown, 1, 1, 4000.0))
    until(shown, "return document.querySelectorAll('.graph svg').length === 2")
    critical = shown.execute_script(
        "return [...document.querySelectorAll('.graph')[1].querySelectorAll('g.critical title')]"
        ".map(one => one.textContent.split(':')[0])"
    )
    assert critical == ["top", "left", "bottom"]
    words = shown.execute_script("return document.getElementById('selection').textContent")
    assert "a: 2.00 s to 10.0 s; b: 0.000 s to 8.00 s" in words
    show_timelines(shown)
    click(shown, *at(shown, 1, 1, 4000.0))
    until(shown, "return CHOSEN.job === null")


def test_all_of_it_by_keyboard(shown: Any) -> None:
    show_timelines(shown)
    press(shown, "+")
    until(shown, "return VIEW.to - VIEW.from < 8000")
    before = shown.execute_script("return VIEW.from")
    press(shown, "ArrowRight")
    until(shown, f"return VIEW.from > {before}")
    press(shown, "n")
    until(shown, "return CHOSEN.job === 0")
    press(shown, "n")
    until(shown, "return CHOSEN.job === 1")
    press(shown, "p")
    until(shown, "return CHOSEN.job === 0")
    press(shown, "Escape")
    until(shown, "return CHOSEN.job === null")
    press(shown, "0")
    until(shown, "return VIEW.from === 0 && VIEW.to === 10000")
    reachable = shown.execute_script(
        "return [...document.querySelectorAll('th button, canvas[role], nav a, #theme')]"
        ".every(one => one.tabIndex >= 0)"
    )
    assert reachable


def test_colours_are_the_systems_or_the_buttons_and_paper_is_white(shown: Any) -> None:
    """Charts are drawn again; a page that is dark is so after printing."""
    background = "return getComputedStyle(document.body).backgroundColor"
    white, dark = "rgb(255, 255, 255)", "rgb(20, 23, 27)"
    assert shown.execute_script(background) == white
    prefer(shown, "dark")
    assert shown.execute_script(background) == dark
    prefer(shown, "light")
    shown.execute_script("document.getElementById('theme').click()")
    assert shown.execute_script(background) == dark
    assert shown.execute_script("return document.querySelectorAll('.u-wrap').length") == 3
    shown.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert shown.execute_script(background) == white
    shown.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert shown.execute_script(background) == dark
    assert complaints(shown) == []


def test_decisions_are_gone_through_and_marked_in_the_timelines(shown: Any) -> None:
    """It begins at a plan with reasons; a step back, and a click in a timeline, show another."""
    text = "return document.getElementById('decision-shown').textContent"
    first = shown.execute_script(text)
    assert "Decision 7 at 4.00 s" in first
    assert "job 1, stage left, up to 2 executors" in first
    assert f"Because {HOSTILE}." in first
    assert "leaves the rest idle" in first  # what b would do
    assert shown.execute_script("return MARK.time_s") == 4
    shown.execute_script("document.getElementById('decision-before').click()")
    assert "Decision 3 at 2.00 s" in shown.execute_script(text)
    assert "Because" not in shown.execute_script(text)
    shown.execute_script("document.getElementById('decision-told').click()")
    assert "Decision 7" in shown.execute_script(text)
    show_timelines(shown)
    click(shown, *at(shown, 0, 0, 1500.0))
    until(shown, "return MARK.time_s === 2")
    shown.execute_script("CHARTS.forEach(chart => chart.draw())")
    pixel = """
        const chart = CHARTS[1], x = Math.round(2000 / VIEW.to * chart.canvas.width);
        return [...chart.context.getImageData(x, 0, 1, 1).data];
    """
    assert shown.execute_script(pixel) == [26, 29, 33, 255]  # the colour of the ink


# --- pages of many policies, on paper and on small screens ----------------------------------------

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


def show(driver: Any, folder: Path, sections: list[Section], command: str = "") -> None:
    write_page(folder / "page.html", sections, title="Report", command=command)
    open_page(driver, folder / "page.html")


def lines(x: list[float], y: list[float | None], **more: Any) -> Section:
    chart = Lines("Chart", Series(x, {"line": y}), "x", "y", **more)
    content = {"sentences": [], "caption": "", "headings": [], "rows": []}
    return Section("one", "One", "table.html", content, charts=[chart])


def test_a_printed_table_has_its_headings_and_all_columns(small: Any, tmp_path: Path) -> None:
    """Nothing is beyond the paper's edge, and what only a mouse needs is not there."""
    resize(small, PAPER_PX)
    show(small, tmp_path, comparison())
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


def test_nothing_of_a_legend_or_caption_is_hidden_on_a_small_screen(
    small: Any, tmp_path: Path
) -> None:
    show(small, tmp_path, comparison())
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
    show(small, tmp_path, sections, COMMAND)
    assert small.execute_script("return document.documentElement.scrollWidth") <= 390
    assert COMMAND in small.execute_script("return document.body.innerText")


# --- few values, small values, large values ------------------------------------------------------


def training(path: Path) -> Path:
    """Two iterations, of which the first was validated."""
    every = {"loss": 0.0, "divergence": 2e-5, "learning_rate": 1e-3, "reward_rate": -10.5}
    first, second, *_ = (run_folder(path) / "metrics.jsonl").read_text().splitlines()
    rows = (json.loads(first) | every, json.loads(second) | every | {"divergence": 2.1e-5})
    (path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


@pytest.mark.parametrize("width", [1280, 390])
def test_ticks_never_repeat_and_iterations_are_whole(
    driver: Any, tmp_path: Path, width: int
) -> None:
    """Of a training whose divergence is near 0 and whose learning rate is constant."""
    resize(driver, width)
    show(driver, tmp_path, [training_section(training(tmp_path / "run"))])
    for across, up in driver.execute_script(_TICKS):
        assert set(across) <= {"1", "2"}
        assert len(up) > 1
        assert len(set(up)) == len(up), up
    resize(driver, 1280)


@pytest.mark.parametrize("isolated", [1e-9, 7.0, 1e17])
def test_an_isolated_value_of_any_size_is_drawn_with_ticks(
    driver: Any, tmp_path: Path, isolated: float
) -> None:
    show(driver, tmp_path, [lines([0, 1, 2], [None, isolated, None])])
    ((_, up),) = driver.execute_script(_TICKS)
    assert len(set(up)) == len(up) > 1
    assert "0,114,178" in driver.execute_script(_COLOURS, 0)
    assert complaints(driver) == []


def test_a_chart_without_values_tells_so(driver: Any, tmp_path: Path) -> None:
    show(driver, tmp_path, [lines([0.0], [None])])
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
    show(driver, tmp_path, [*comparison(), decisions()])
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
