"""Formulas of docstrings on the documentation site: shown as code.

What draws formulas in a browser is loaded from other sites, and the site asks none for anything.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_BLOCK = re.compile(r"^\.\. math::[ \n]*(.+?)(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r":math:`([^`]+)`")


def shown_as_code(text: str) -> str:
    """Blocks of `.. math::` as fenced code, `:math:` in a sentence as plain code."""
    fenced = _BLOCK.sub(lambda match: f"```text\n{_aligned(match[1])}\n```", text)
    return _INLINE.sub(r"`\1`", fenced)


def _aligned(formula: str) -> str:
    return "\n".join(line.strip() for line in formula.splitlines())


class Math(Extension):
    """Rewrites the docstring of each module, class, function and attribute."""

    def on_object(self, *, obj: Object, **_others: Any) -> None:
        """Called by mkdocstrings for each object that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = shown_as_code(obj.docstring.value)
