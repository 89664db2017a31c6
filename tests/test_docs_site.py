"""The documentation site: what it asks for, and its search in a real browser, opened from disk.

Slow (it is built): `pytest -m slow tests/test_docs_site.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from tests.browser import complaints, requests, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
_SEARCH = """
document.querySelector("[data-md-toggle=search]").click();
const box = document.querySelector("input.md-search__input");
box.focus();
box.value = arguments[0];
for (const name of ["input", "keyup"]) box.dispatchEvent(new KeyboardEvent(name, {bubbles: true}));
"""
_FOUND = "[...document.querySelectorAll('.md-search-result__link')].map(one => one.href)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a warning fails."""
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


def test_the_site_is_built_without_a_warning_and_asks_nobody(site: Path) -> None:
    """Links to other sites are for people; fonts, scripts, styles and pictures are its own."""
    loads = re.compile(
        r"<(?:script|img|iframe|source|link)\b[^>]*(?:src|href)=\"?((?:https?:)?//[^\"> ]+)"
    )
    styled = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)")
    pages, styles = list(site.rglob("*.html")), list(site.rglob("*.css"))
    assert len(pages) > 30
    assert styles
    urls = {url for page in pages for url in loads.findall(page.read_text())}
    urls |= {url for style in (*styles, *pages) for url in styled.findall(style.read_text())}
    assert urls == set()


def test_a_search_from_disk_finds_pages(driver: Any, site: Path) -> None:
    """Nothing is asked of another site, from the first page and from one in a folder."""
    for name in ("index.html", "how-to/own-policy.html"):
        driver.get((site / name).as_uri())
        driver.execute_script(_SEARCH, "moving delay")
        until(driver, f"return {_FOUND}.length > 0")
        shown = driver.execute_script(f"return {_FOUND}")
        assert any(url.startswith((site / "glossary.html").as_uri()) for url in shown)
    assert all(url.startswith("file:") for url in requests(driver))
    assert complaints(driver) == []
