"""Check of the project's words: `python -m tests.words`, a part of `make lint`.

Three rules, which docs/contributing.md explains: openings of docstrings, refused words in
docstrings, comments, messages and pages, and the form of commit subjects. Prints one line for each
fault, and exits with 1 if there is any.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("decima", "traces", "spark_sim", "gnn", "deeprm", "harmony", "benchmarks", "examples")
"""tests are left out: their docstrings are laws, stated in a sentence"""

REFUSED_OPENINGS = frozenset(
    """
    what whatever whether how however where when why which whichever who whoever whom whose
    it its itself himself they their this that these those such we our ours you your
    nobody somebody someone something everything nothing anything everyone
    of by with without in on at from to for as over under until since between before after below
    above beside into through about per around during among against like than
    and but or so also if because neither not else some any away
    say says tell tells
    """.split()  # noqa: SIM905 - words read better than a list of quoted ones
)
"""first words that lean on the name, or begin no sentence: fragments, pronouns, prepositions"""
_PHRASE = re.compile(
    r"(?:all|both|each|every|one|another|the) "
    r"(?:that|who|which|what|same|others?|of|by|with|in|to)\b",
    re.IGNORECASE,
)
"""further openings that lean on the name, such as "The same of ..." and "All that ..." """
_THIRD_PERSON = re.compile(r"\w+[^\Ws]s (?:the|a|an|its|whether|each|every|all|some|any)\b")
"""such as "Returns the ...": the imperative is "Return the ..." """
_SECTION = re.compile(r"(?:Args|Returns|Raises):$")

REFUSED_WORDS = {
    "nobody|somebody|someone|whoever": "name the component or the reader",
    "we|our|ours|us": "name the component or the reader",
    "say|says|said|tell|tells|told": "things have no voice: log, print, report, observe, return",
    "believe|believed|believes": "check, trust",
    "judge|judged|judges|judging|judgement": "compare, check, evaluate",
    "kept": "store, cache, record, save",
    "giants?": "large or heavy job",
    "dear|dearer|dearest": "costly",
    "lapse|lapsed|lapses": "expire, timeout",
    "obey|obeys|obeyed": "follow",
}
"""pattern -> what to write instead"""
_WORDS = {
    re.compile(rf"\b(?:{words})\b", re.IGNORECASE): why for words, why in REFUSED_WORDS.items()
}

MAX_SUBJECT = 65
LAST_COMMITS = 10
"""commits that are checked, without merges; older ones cannot be changed any more"""
_SUBJECT = re.compile(r"[\w.-]+(?:, [\w.-]+)*: (?P<effect>\S.*)")
_NO_EFFECT = (REFUSED_OPENINGS | {"a", "an", "the"}) - {"say", "tell"}
"""first words after the area that are no verb"""


def opening_fault(line: str) -> str | None:
    """Return the fault of a docstring's first line, or None."""
    first = re.split(r"[ ,:;.]", line, maxsplit=1)[0]
    if _SECTION.match(line):
        return None
    if first.lower() in REFUSED_OPENINGS or _PHRASE.match(line):
        return f"opens with {' '.join(line.split()[:2])!r}: use a verb, or a noun with its phrase"
    if _THIRD_PERSON.match(line):
        return f"opens with {first!r}: use the imperative"
    return None


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstrings of modules, classes and functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def word_faults(text: str) -> Iterator[str]:
    """Yield the faults of the words in a text without code."""
    for pattern, instead in _WORDS.items():
        for found in pattern.findall(text):
            yield f"{found!r}: {instead}"


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of comments, docstrings and messages, without code in them."""
    middle = getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)  # Python 3.12 and newer
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_text = token.type in (tokenize.STRING, middle) and " " in token.string
        if not is_text and token.type != tokenize.COMMENT:
            continue
        for offset, line in enumerate(token.string.splitlines()):
            without_code = re.sub(r"`[^`]*`|\{[^{}]*\}|^\s*\w+: ", "", line)
            yield token.start[0] + offset, without_code


def page_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of a Markdown page, without code and the targets of links."""
    is_code = False
    for number, line in enumerate(text.splitlines(), start=1):
        is_code ^= line.startswith("```")
        if not is_code and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def subject_fault(subject: str) -> str | None:
    """Return the fault of a commit's subject, or None."""
    if subject.startswith('Revert "'):
        return None
    found = _SUBJECT.fullmatch(subject)
    if found is None:
        return "no `area: verb effect`"
    if len(subject) > MAX_SUBJECT:
        return f"{len(subject)} characters, at most {MAX_SUBJECT} are allowed"
    if found["effect"].split()[0].lower() in _NO_EFFECT:
        return "no verb after the area"
    return None


def subjects(folder: Path = ROOT) -> list[str]:
    """Return the subjects of the last commits; none where there is no repository."""
    done = subprocess.run(  # noqa: S603 - git, in this folder
        ["git", "log", f"-{LAST_COMMITS}", "--no-merges", "--format=%s"],  # noqa: S607
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


def sources() -> list[Path]:
    """Return the Python files that are checked."""
    inside = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [*inside, *sorted(ROOT.glob("*.py"))]


def pages() -> list[Path]:
    """Return the pages that are checked: all but results and the history of changes."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if "results" not in path.parts]


def faults() -> Iterator[str]:
    """Yield every fault of the project, a line each."""
    for path in sources():
        where, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
        for number, docstring in docstrings(ast.parse(text)):
            fault = opening_fault(docstring.splitlines()[0])
            if fault is not None:
                yield f"{where}:{number}: docstring {fault}"
        for number, line in prose(text):
            yield from (f"{where}:{number}: {fault}" for fault in word_faults(line))
    for path in pages():
        for number, line in page_prose(path.read_text(encoding="utf-8")):
            where = path.relative_to(ROOT)
            yield from (f"{where}:{number}: {fault}" for fault in word_faults(line))
    for subject in subjects():
        fault = subject_fault(subject)
        if fault is not None:
            yield f"commit {subject!r}: {fault}"


def main() -> int:
    """Print all faults; return the exit code."""
    found = list(faults())
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
