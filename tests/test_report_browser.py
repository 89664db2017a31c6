"""The report in a real browser: what it draws, what it answers to, what it leaves alone."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.browser import (
    complaints,
    open_page,
    prefer,
    requests,
    resize,
    until,
)
from tests.pages import HOSTILE, decisions, results_json, two_runs


@pytest.fixture
def shown(driver: Any, tmp_path: Path) -> Any:
    """A driver that shows the report of two runs, 1280 pixels wide, in light colours."""
    from decima.report import comparison_sections, results_of, write_page

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
    found = driver.execute_script(
        """
        const chart = CHARTS[arguments[0]], box = chart.canvas.getBoundingClientRect();
        return [box.left + (arguments[2] - VIEW.from) / (VIEW.to - VIEW.from) * box.width,
                box.top + (arguments[1] + 0.5) / chart.run.executors * box.height];
        """,
        chart, executor, time_ms,
    )  # fmt: skip
    return float(found[0]), float(found[1])


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


def test_nothing_is_asked_of_the_network_and_nothing_complains(shown: Any) -> None:
    assert requests(shown) == []
    assert complaints(shown) == []
    assert shown.title == HOSTILE


def test_hostile_names_stay_text(shown: Any) -> None:
    assert shown.execute_script("return document.querySelectorAll('img').length") == 0
    assert shown.execute_script("return document.querySelector('h1').textContent") == HOSTILE


def test_the_policy_of_the_page_forbids_what_is_not_in_it(shown: Any) -> None:
    """A script that somebody smuggled in does not run, and no request leaves."""
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
    """Every task of both runs, by its middle; and nothing where the executor is idle."""
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


def test_rows_are_numbered_and_jobs_listed_with_their_colours(shown: Any) -> None:
    """A number beside each row; a job's button has the colour of its tasks, and chooses it."""
    labels = shown.execute_script(
        """
        const middle = (one) => {
          const box = one.getBoundingClientRect();
          return box.top + box.height / 2;
        };
        return CHARTS.map((chart) => [...chart.rows.children].map((label, row) => {
          const box = chart.canvas.getBoundingClientRect();
          return [label.textContent, middle(label) - (box.top + (row + 0.5) * box.height / 2)];
        }));
        """
    )
    for rows in labels:
        assert [text for text, _ in rows] == ["executor 0", "1"]
        assert all(abs(offset) < 1.5 for _, offset in rows)
    buttons = "return [...document.querySelectorAll('#jobs button')].map((one) => one.innerText)"
    assert shown.execute_script(buttons) == ["0 small", f"1 {HOSTILE}"]
    colours = """
        const chart = CHARTS[0], x = Math.round(3000 / VIEW.to * chart.canvas.width);
        chart.draw();
        const pixel = [...chart.context.getImageData(x, 3, 1, 1).data].slice(0, 3).join(", ");
        const patch = document.querySelector("#jobs button[data-job='1'] i");
        return [`rgb(${pixel})`, getComputedStyle(patch).backgroundColor];
    """
    pixel, patch = shown.execute_script(colours)
    assert pixel == patch
    choose = "document.querySelector(\"#jobs button[data-job='1']\").click()"
    shown.execute_script(choose)
    assert shown.execute_script("return CHOSEN.job") == 1
    pressed = "return [...document.querySelectorAll('#jobs button')].map((one) => one.ariaPressed)"
    assert shown.execute_script(pressed) == ["false", "true"]
    shown.execute_script(choose)
    assert shown.execute_script("return CHOSEN.job") is None


def test_one_is_no_plural(shown: Any) -> None:
    """Of the words with a number on the page."""
    text = shown.execute_script("return document.body.innerText")
    assert "1 executor on offer, 1 stage to choose from" in text
    assert re.findall(r"(?<![\d.,])1 (?:jobs|stages|executors|tasks|plans|sequences)\b", text) == []


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


def test_dragging_moves_both(shown: Any) -> None:
    show_timelines(shown)
    press(shown, "+")
    press(shown, "+")
    until(shown, "return VIEW.to - VIEW.from < 6000")
    before = shown.execute_script("return VIEW.from")
    x, y = at(shown, 1, 0, 5000.0)
    mouse(shown, "mousePressed", x, y, button="left", clickCount=1)
    mouse(shown, "mouseMoved", x - 100, y, button="left", buttons=1)
    mouse(shown, "mouseReleased", x - 100, y, button="left")
    assert shown.execute_script("return VIEW.from") > before + 100
    assert shown.execute_script("return CHOSEN.job") is None  # a drag is no click


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
    """Zoom, move, choose, let go; and the headings of the table are buttons."""
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


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_page(shown: Any, width: int, scheme: str) -> None:
    resize(shown, width)
    prefer(shown, scheme)
    time.sleep(0.3)  # the page waits until a window keeps its size
    assert shown.execute_script("return document.documentElement.scrollWidth") <= width
    background = shown.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    assert complaints(shown) == []


def test_a_button_changes_the_colours(shown: Any) -> None:
    """Whatever the system asks for; charts are drawn again."""
    shown.execute_script("document.getElementById('theme').click()")
    background = "return getComputedStyle(document.body).backgroundColor"
    assert shown.execute_script(background) == "rgb(20, 23, 27)"
    assert shown.execute_script("return document.querySelectorAll('.u-wrap').length") == 3
    shown.execute_script("document.getElementById('theme').click()")
    assert shown.execute_script(background) == "rgb(255, 255, 255)"
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
