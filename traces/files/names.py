"""Names and messages from outside, cleaned for files, terminals and messages.

A name may hold terminal commands (escape sequences, controls), marks that reverse the text around
it (bidirectional marks), characters that no file can hold (lone surrogates), or a megabyte. None of
these is printable by Unicode's and Python's definition.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Sequence

MAX_NAME = 200  # characters that `clean` leaves of one name
MAX_MESSAGE = 2_000  # characters that `one_line` leaves of a message

_DIGEST = 8


def counted(number: int, word: str) -> str:
    """``1 job``, ``2,000 jobs``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def some(names: Sequence[object], most: int) -> str:
    """``a, b, c, ...``: the first names, and whether there are more."""
    return ", ".join(map(str, names[:most])) + (", ..." if len(names) > most else "")


def suggestion(asked: object, known: Iterable[str]) -> str:
    """Return `` (did you mean NAME?)`` with the nearest known name; "" where none is near.

    Names may be paths such as ``section.key``: an equal last part is nearest.
    """
    names = list(known)
    text = str(asked)[:MAX_NAME].lower()
    leaf = text.rpartition(".")[2]
    nearest = [name for name in names if name.lower().rpartition(".")[2] == leaf]
    if not nearest:
        whole = {name.lower(): name for name in reversed(names)}
        leaves = {key.rpartition(".")[2]: name for key, name in whole.items()}
        near = {**leaves, **whole}
        nearest = [near[key] for key in difflib.get_close_matches(text, near, n=1, cutoff=0.7)]
    return f" (did you mean {nearest[0]}?)" if nearest else ""


def is_clean(text: str, longest: int) -> bool:
    """Return whether `text` is printable, on one line and not too long."""
    return len(text) <= longest and text.isprintable()


def clean(text: str, longest: int = MAX_NAME) -> str:
    """Return `text` as a name: printable, on one line, of at most `longest` characters.

    A clean name is returned unchanged. Blanks and line ends become one blank, unprintable
    characters their escapes (``\\x1b``). A longer name is cut and ends in its digest, so that
    different names stay different.
    """
    if is_clean(text, longest):
        return text
    visible, is_whole = _visible(text, longest)
    if is_whole:
        return visible
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{visible[: longest - _DIGEST - 1]}…{digest}"[:longest]


def one_line(text: str, longest: int = MAX_MESSAGE) -> str:
    """Return `text` as a message: printable, on one line, cut to the length of messages."""
    visible, is_whole = _visible(text, longest)
    return visible if is_whole else f"{visible[: longest - 1]}…"


def printable(text: str) -> str:
    """Replace unprintable characters by their escapes; line ends stay."""
    return "\n".join(map(_escaped, text.split("\n")))


def _visible(text: str, longest: int) -> tuple[str, bool]:
    """Return `text` on one line without unprintable characters, and whether it is complete.

    Only the beginning of a long text is read; a cut text may be longer than `longest`.
    """
    begin = text[: 4 * longest]
    visible = _escaped(" ".join(begin.split()))
    return visible, len(begin) == len(text) and len(visible) <= longest


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
