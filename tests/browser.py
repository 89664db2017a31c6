"""A headless Chromium for pages: what it printed, what it asked the network for."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

PATIENCE_S = 20.0
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def skip_without_browser() -> None:
    """Skip where there is no Chromium, but where CI says that there must be one."""
    if shutil.which("chromium") and shutil.which("chromedriver"):
        return
    if os.environ.get("REQUIRE_BROWSER"):
        pytest.fail("no chromium and chromedriver on the path")
    pytest.skip("no chromium and chromedriver on the path")


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """A browser, closed on leaving."""
    options = Options()
    for flag in _FLAGS:
        options.add_argument(flag)
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(str(shutil.which("chromedriver"))))
    try:
        yield driver
    finally:
        driver.quit()


def resize(driver: webdriver.Chrome, width: int, height: int = 900) -> None:
    """The size of the page, which a window cannot be small enough for."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )


def prefer(driver: webdriver.Chrome, scheme: str) -> None:
    """What the system asks pages for: "dark" or "light"."""
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )


def open_page(driver: webdriver.Chrome, path: Path) -> None:
    """Open a report from disk and wait until all of it is drawn."""
    driver.get(path.absolute().as_uri())
    until(driver, "return document.documentElement.dataset.ready === 'true'")


def until(driver: webdriver.Chrome, script: str) -> None:
    """Wait for a script to return true."""
    ends = time.monotonic() + PATIENCE_S
    while not driver.execute_script(script):
        assert time.monotonic() < ends, f"never true: {script}"
        time.sleep(0.02)


def complaints(driver: webdriver.Chrome) -> list[str]:
    """What the page printed to the console, from warnings on."""
    return [str(entry["message"]) for entry in _log(driver, "browser")]


def requests(driver: webdriver.Chrome) -> list[str]:
    """Addresses that the pages asked for since the last call, but for the pages themselves."""
    urls = []
    for entry in _log(driver, "performance"):
        message: dict[str, Any] = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = str(message["params"]["request"]["url"])
            if message["params"].get("type") != "Document" and not url.startswith("data:"):
                urls.append(url)
    return urls


def _log(driver: webdriver.Chrome, kind: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = driver.get_log(kind)  # type: ignore[no-untyped-call]
    return entries
