"""The documentation site in a real browser, opened from disk: its search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.commands.build import build
from mkdocs.config import load_config

from tests.browser import complaints, requests, until

ROOT = Path(__file__).parents[1]
_SEARCH = """
document.querySelector("[data-md-toggle=search]").click();
const box = document.querySelector("input.md-search__input");
box.focus();
box.value = arguments[0];
for (const name of ["input", "keyup"]) box.dispatchEvent(new KeyboardEvent(name, {bubbles: true}));
"""
_FOUND = "[...document.querySelectorAll('.md-search-result__link')].map(one => one.href)"


def test_a_search_from_disk_finds_pages(driver: Any, tmp_path: Path) -> None:
    """Nothing is asked of another site, from the first page and from one in a folder."""
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True))
    for name in ("index.html", "how-to/own-policy.html"):
        driver.get((tmp_path / name).as_uri())
        driver.execute_script(_SEARCH, "moving delay")
        until(driver, f"return {_FOUND}.length > 0")
        found = driver.execute_script(f"return {_FOUND}")
        assert any(url.startswith((tmp_path / "glossary.html").as_uri()) for url in found)
    assert all(url.startswith("file:") for url in requests(driver))
    assert complaints(driver) == []
