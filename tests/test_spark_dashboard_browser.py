"""The live page in a real browser: what it shows, how it keeps up, what it says when left alone."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from decima.spark import JobStatus, SchedulerStatus
from decima.spark.coordinator.server import WORDS
from decima.spark.dashboard import serve
from tests.browser import complaints, prefer, requests, resize, until
from tests.pages import HOSTILE, live_status


class Live:
    """A page that is open, and the status behind it, which a test changes."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.now: SchedulerStatus = live_status()
        self.url, self.stop = serve(lambda: self.now, 0)

    def text(self, selector: str) -> str:
        return str(
            self.driver.execute_script(
                "return document.querySelector(arguments[0]).textContent", selector
            )
        )

    def rows(self) -> list[list[str]]:
        shown: list[list[str]] = self.driver.execute_script(
            "return [...document.querySelectorAll('#jobs tbody tr')]"
            ".map(row => [...row.cells].map(cell => cell.textContent))"
        )
        return shown

    def facts(self) -> dict[str, str]:
        shown: dict[str, str] = self.driver.execute_script(
            "return Object.fromEntries([...document.querySelectorAll('#facts div')]"
            ".map(one => [one.firstChild.textContent, one.lastChild.textContent]))"
        )
        return shown

    def state(self, name: str) -> None:
        """Wait for it."""
        until(self.driver, f"return document.documentElement.dataset.state === '{name}'")


@pytest.fixture
def live(driver: Any) -> Iterator[Live]:
    page = Live(driver)
    resize(driver, 1280)
    prefer(driver, "light")
    complaints(driver), requests(driver)
    driver.get(page.url)
    page.state("live")
    yield page
    page.stop()
    driver.get("about:blank")


def test_it_shows_jobs_and_facts_and_asks_nobody_else(live: Live) -> None:
    assert live.rows() == [
        ["nightly", "5", "6", "10", "", "1 min 15 s"],
        ["report", "1", "1", "0", "", "30 s"],
        ["late", "0", "none", "4", "2 s", "3 s"],
    ]
    facts = live.facts()
    expected = {"policy": "decima", "mode": "exact", "slots": "6 of 8 busy", "fallbacks": "1",
                "jobs": "3, 1 without a slot", "waiting tasks": "14", "decisions a second": "3.5",
                "lapses": "2", "plans": "7", "attached for": "1 min 40 s"}  # fmt: skip
    assert {name: facts[name] for name in expected} == expected
    assert live.driver.title == "6 of 8 slots: live scheduler"
    asked = requests(live.driver)
    assert asked
    assert set(asked) == {f"{live.url}status.json"}
    assert complaints(live.driver) == []


def test_the_page_of_a_coordinator_speaks_of_applications_and_executors(driver: Any) -> None:
    """In headings, figures, labels and explanations; what it does not count is not there."""
    status = replace(live_status(), mode="applications", jvm={}, state=None, reason=None)
    url, stop = serve(lambda: status, 0, words=WORDS)
    try:
        driver.get(url)
        until(driver, "return document.documentElement.dataset.state === 'live'")
        text = driver.execute_script(
            "return document.title + document.body.innerText"
            " + [...document.querySelectorAll('[aria-label]')].map(one => one.ariaLabel).join(' ')"
        )
    finally:
        stop()
        driver.get("about:blank")
    wrong = re.findall(r"\b(?:jobs?|slots?|session|laps\w+|unknown|starved|attached)\b", text, re.I)
    assert wrong == []
    for expected in (
        "6 of 8 registered", "3, 1 without an executor", "Executors by application", "target",
        "6 of 8 executors held by 2 applications", "all executors of the cluster",
        "Dividing the executors.",
    ):  # fmt: skip
        assert expected.lower() in text.lower()


def test_it_keeps_up_by_itself(live: Live) -> None:
    """A job goes, one comes, figures change; the rows that stay are the same elements."""
    live.driver.execute_script("document.querySelector('#jobs tbody tr').dataset.kept = '1'")
    first = live.now.jobs[0]
    new = JobStatus("spark 9", "new", 3, 4, 0, 0.0, None)
    live.now = replace(
        live.now, jobs=(replace(first, held=2), new), held={first.key: 2, new.key: 3}, plans=1_234
    )
    until(live.driver, "return document.querySelectorAll('#jobs tbody tr').length === 2")
    assert [row[:2] for row in live.rows()] == [["nightly", "2"], ["new", "3"]]
    assert live.text("#jobs tr[data-kept] span") == "nightly"
    assert live.facts()["plans"] == "1,234"
    assert live.facts()["slots"] == "5 of 8 busy"
    live.now = replace(live.now, jobs=(), held={})
    until(live.driver, "return document.getElementById('more').textContent !== ''")
    assert live.text("#more") == "No job is in the system."


def test_the_chart_has_the_slots_of_each_job(live: Live) -> None:
    """Colours at the right edge, from the bottom: five slots, one, and two idle; as the table."""
    until(live.driver, "return HISTORY.length >= 3")
    shown = live.driver.execute_script(
        """
        draw();
        const canvas = document.getElementById('slots'), context = canvas.getContext('2d');
        const colour = (slot) => {
          const y = canvas.height - (slot + 0.5) / 8 * (canvas.height - 4);
          const [r, g, b, a] = context.getImageData(canvas.width - 1, y, 1, 1).data;
          return a === 0 ? '' : `rgb(${r}, ${g}, ${b})`;
        };
        return [0, 1, 2, 3, 4, 5, 6, 7].map(colour);
        """
    )
    patches = live.driver.execute_script(
        "return [...document.querySelectorAll('#jobs i')].slice(0, 2)"
        ".map(one => getComputedStyle(one).backgroundColor)"
    )
    assert shown == [patches[0]] * 5 + [patches[1]] + [""] * 2
    assert patches[0] != patches[1]
    label = live.driver.execute_script("return document.getElementById('slots').ariaLabel")
    assert label == "6 of 8 slots held by 2 jobs"


def test_hostile_names_stay_text(live: Live) -> None:
    job = JobStatus(f"job {HOSTILE}", HOSTILE, 1, 1, 0, 1.0, None)
    live.now = replace(live.now, jobs=(job,), held={job.key: 1}, policy=HOSTILE, last_fault=HOSTILE)
    until(live.driver, "return document.querySelectorAll('#jobs tbody tr').length === 1")
    assert live.rows()[0][0] == HOSTILE
    assert live.facts()["policy"] == live.facts()["last fault"] == HOSTILE
    assert live.driver.execute_script("return document.querySelectorAll('img').length") == 0
    assert live.driver.execute_script("return document.querySelectorAll('script').length") == 2
    assert complaints(live.driver) == []


@pytest.mark.parametrize(
    ("state", "words", "change"),
    [
        ("live", "Nothing: mode shadow.",
         {"mode": "shadow", "state": "nothing", "reason": "mode shadow"}),
        ("live", "Policy decides: policy fifo.",
         {"state": "policy decides", "reason": "policy fifo"}),
        ("starting", "Stand-in: Python is starting.",
         {"state": "stand-in", "reason": "Python is starting"}),
        ("lapsed", "Caps only: no plan came.", {"state": "caps only", "reason": "no plan came"}),
        ("slow", "No report from Spark for 20 s", {"heard_s": 20.0}),
        ("ended", f"The scheduler detached: {HOSTILE}.",
         {"is_attached": False, "ended_because": HOSTILE}),
    ],
    ids=["shadow", "policy", "stand-in", "caps only", "slow", "ended"],
)  # fmt: skip
def test_it_says_how_the_scheduler_is(
    live: Live, state: str, words: str, change: dict[str, Any]
) -> None:
    live.now = replace(live.now, **change)
    if state == "live":
        until(live.driver, "return document.getElementById('state').textContent !== 'Attached.'")
    live.state(state)
    assert words in live.text("#state")


def test_it_says_when_nobody_answers_and_finds_the_server_again(live: Live) -> None:
    """What it knew stays, said to be old; it asks less and less often, and at once on a click."""
    port = int(live.url.rsplit(":", 1)[1].strip("/"))
    live.stop()
    live.state("gone")
    assert live.text("#state").startswith("No answer: the scheduler was detached")
    assert len(live.rows()) == 3
    look = "const news = document.getElementById('news'); return news.classList.contains('old')"
    assert live.driver.execute_script(look)
    until(live.driver, "return delay >= 4000")
    _, live.stop = serve(lambda: live.now, port)
    live.driver.execute_script("document.querySelector('#again button').click()")
    live.state("live")
    assert live.driver.execute_script("return delay === EVERY_MS")
    assert not live.driver.execute_script(look)
    assert live.driver.execute_script("return document.getElementById('again').hidden")


def test_it_can_be_paused_by_keyboard(live: Live) -> None:
    """A page that moves by itself must stand still on demand."""
    live.driver.execute_script("document.getElementById('pause').focus()")
    live.driver.switch_to.active_element.send_keys(" ")
    live.state("paused")
    live.now = replace(live.now, plans=99)
    requests(live.driver)
    time.sleep(1.5)  # a page that runs asks every second
    assert requests(live.driver) == []
    assert live.facts()["plans"] == "7"
    live.driver.switch_to.active_element.send_keys(" ")
    live.state("live")
    assert live.facts()["plans"] == "99"
    reachable = live.driver.execute_script(
        "return [...document.querySelectorAll('button, .scroll')].every(one => one.tabIndex >= 0)"
    )
    assert reachable


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_nothing_is_wider_than_the_page(live: Live, width: int, scheme: str) -> None:
    long = JobStatus("job long", "x" * 200, 1, 1, 0, 1.0, None)
    live.now = replace(live.now, jobs=(*live.now.jobs, long), last_fault="y" * 300)
    resize(live.driver, width)
    prefer(live.driver, scheme)
    until(live.driver, "return document.querySelectorAll('#jobs tbody tr').length === 4")
    assert live.driver.execute_script("return document.documentElement.scrollWidth") <= width
    look = "return getComputedStyle(document.body).backgroundColor"
    background = live.driver.execute_script(look)
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    live.driver.execute_script("document.getElementById('theme').click()")
    assert live.driver.execute_script(look) != background
    assert complaints(live.driver) == []
