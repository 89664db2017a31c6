"""The long description of the package: README.md, with links that hold outside of the repository.

Everything else is in pyproject.toml. An index shows the text by itself, so a link to a file of the
repository leads nowhere there. Links to pages become links to the documentation site, if
``project.urls`` names one as `Documentation`; else, and for other files, their words stay.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

_ROOT = Path(__file__).parent
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_PAGE = re.compile(r"(?:docs/)?([\w/-]+)\.md(#.*)?")


def long_description(text: str, site: str | None) -> str:
    """The text without relative links.

    Args:
        text: Markdown; blocks of code stay as they are.
        site: URL of the documentation, where each page of ``docs/`` is an HTML file.
    """

    def absolute(found: re.Match[str]) -> str:
        words, target = found.groups()
        if _ELSEWHERE.match(target):
            return found[0]
        page = _PAGE.fullmatch(target)
        if site is None or page is None or found[0].startswith("!"):
            return words
        return f"[{words}]({site.rstrip('/')}/{page[1].lower()}.html{page[2] or ''})"

    parts = _FENCED.split(text)
    return "".join(part if i % 2 else _LINK.sub(absolute, part) for i, part in enumerate(parts))


if __name__ == "__main__":
    urls = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
    setup(
        long_description=long_description(
            (_ROOT / "README.md").read_text("utf-8"), urls.get("Documentation")
        ),
        long_description_content_type="text/markdown",
    )
