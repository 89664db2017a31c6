"""What the README and `docs/` name exists: files, commands, options, settings, compiled code.

And every page is on the documentation site, as it should look there.
"""

from __future__ import annotations

import ast
import re
import runpy
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import click
import pytest
from mkdocs.config import load_config

from decima.registry import HEURISTICS
from decima.training.config import TrainConfig, read_config
from tests.commands import PROGRAMS, below, command_at
from traces import list_builtin

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))

_LINK = re.compile(r"\]\(([\w./-]+\.\w+)[)#]")
_PATH = re.compile(
    r"`((?:parallel|traces|spark_sim|gnn|rl|deeprm|harmony|decima|tests|benchmarks|examples|docs)/[\w./-]+)`"
)
_CODE = re.compile(
    r"`((?:decima|deeprm|harmony) [a-z][^`]*)`|^(?: {4})?((?:decima|deeprm|harmony) [a-z].*)$",
    re.MULTILINE,
)
_NAME = re.compile(
    r"`((?:files|parallel|traces|spark_sim|gnn|rl|deeprm|harmony|decima)(?:\.[A-Za-z_]\w*)+)"
)
_IMPORT = re.compile(
    r"^ *from ((?:files|parallel|traces|spark_sim|gnn|rl|deeprm|harmony|decima)[\w.]*)"
    r" import ([\w, ]+)$",
    re.MULTILINE,
)
_SPARK_PROPERTIES = {"decima.status", "decima.job", "decima.user"}


@each_page
def test_files_that_a_page_names_exist(page: Path) -> None:
    """Links from the page, and paths in code from the root; folders end in a slash."""
    text = page.read_text()
    paths = [page.parent / link for link in _LINK.findall(text)]
    paths += [ROOT / path for path in _PATH.findall(text)]
    assert [str(path) for path in paths if not path.exists()] == []


def names(text: str) -> set[str]:
    names = set(_NAME.findall(text))
    for module, several in _IMPORT.findall(text):
        names |= {f"{module}.{name.split(' as ')[0].strip()}" for name in several.split(",")}
    return names - _SPARK_PROPERTIES


def is_there(name: str) -> bool:
    try:
        resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


@each_page
def test_names_of_python_on_a_page_exist(page: Path) -> None:
    assert [name for name in sorted(names(page.read_text())) if not is_there(name)] == []


def commands(text: str) -> Iterator[list[str]]:
    for inline, line in _CODE.findall(text.replace("\\\n", " ")):
        yield shlex.split(inline or line, comments=True)


def fault(words: list[str]) -> str | None:
    """Why the command would be refused for its name or an option's; None if it is known."""
    command: click.Command = PROGRAMS[words[0]]
    words = words[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        known_commands = below(command)
        if words[0] not in known_commands:
            return f"no command {words[0]!r} in {command.name!r}"
        command, words = known_commands[words[0]], words[1:]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    flags = [word.strip("[]").partition("=")[0] for word in words if re.match(r"\[?--?[a-z]", word)]
    unknown = [flag for flag in flags if flag not in {*known, "--help"}]
    return f"{command.name}: no option {unknown}" if unknown else None


@each_page
def test_commands_on_a_page_are_known(page: Path) -> None:
    faults = [(words, fault(words)) for words in commands(page.read_text())]
    assert [why for _, why in faults if why is not None] == []


def test_the_papers_training_is_a_training_for_arrivals_only() -> None:
    """Its settings are accepted, and leave no batch, teacher, critic, backlog or second step."""
    config = read_config(ROOT / "docs" / "examples" / "paper.toml")
    assert (config.workload.batch_jobs, config.initial_model) == ((), None)
    assert config.imitate.iterations == 0
    assert (config.episodes.backlog, config.episodes.ends) == (0, "cut")
    credit = config.credit
    assert (credit.critic, credit.baseline, credit.differential) == (False, "input", True)
    assert (credit.horizon, config.reinforce.passes, config.reinforce.minibatches) == (None, 1, 1)


def test_example_trainings_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every key and trace that they name; hundreds of traces, which are not made for it."""

    def work_s(trace: str) -> float:
        assert trace in list_builtin() or re.fullmatch(r"any-(dag|heavy)-\d{1,4}", trace), trace
        return 1.0

    monkeypatch.setattr("decima.evaluation.config._mean_work_s", work_s)
    examples = sorted((DOCS / "examples").glob("*.toml"))
    trainings = [example for example in examples if "fit-rule" not in example.read_text()]
    assert len(trainings) > 5
    assert all(read_config(training).iterations > 0 for training in trainings)


def test_every_setting_of_a_training_is_in_its_table() -> None:
    """As docs/training.md calls it: `section.key` or, behind one of the same section, `.key`."""
    text = (ROOT / "docs" / "training.md").read_text()
    named: set[str] = set()
    for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE):
        section = ""
        for name in re.findall(r"`([^`]+)`", row):
            before, dot, key = name.partition(".")
            section = before or section
            named.add(f"{section}.{key}" if dot else name)
    known = TrainConfig().to_json()
    every = {
        f"{section}.{key}" if isinstance(known[section], dict) else section
        for section in known
        for key in (known[section] if isinstance(known[section], dict) else ("",))
    }
    assert sorted(every - named) == []


def test_arrivals_are_called_as_the_command_calls_them() -> None:
    """The processes of docs/trace-format.md are those of `--arrivals`."""
    text = (ROOT / "docs" / "trace-format.md").read_text()
    (table,) = re.findall(r"^\| process \|.*?\n\n", text, re.MULTILINE | re.DOTALL)
    command = command_at("decima", ["evaluate"])
    (option,) = (param for param in command.params if param.name == "arrivals")
    assert isinstance(option, click.Option)
    named = set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE))
    assert [name for name in sorted(named) if name not in str(option.help)] == []


def nav_pages(entries: object) -> Iterator[str]:
    """The files that a navigation names, however deep."""
    if isinstance(entries, str):
        yield entries
    elif isinstance(entries, dict):
        yield from (page for entry in entries.values() for page in nav_pages(entry))
    elif isinstance(entries, list):
        yield from (page for entry in entries for page in nav_pages(entry))


def test_every_page_is_in_the_navigation_once() -> None:
    named = list(nav_pages(load_config(str(ROOT / "mkdocs.yml")).nav))
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def broken_lists(text: str) -> list[str]:
    """Lines that begin a list on GitHub and none on the site.

    There a list needs an empty line before it, and four blanks for each level.
    """
    broken, before, is_code, is_list = [], "", False, False
    for line in text.splitlines():
        is_code ^= line.startswith("```")
        entry = re.match(r"( *)(?:[-*]|\d+\.) \S", line)
        if line[:1].strip():
            is_list = entry is not None
        if entry is not None and not is_code and (is_list or len(entry[1]) < 4):
            continues = re.match(r" *(?:[-*]|\d+\.) | ", before) is not None or not before.strip()
            if not continues or len(entry[1]) % 4 != 0:
                broken.append(line)
        before = line
    return broken


@each_page
def test_lists_are_lists_on_the_site_too(page: Path) -> None:
    assert broken_lists(page.read_text()) == []


@cache
def messages() -> str:
    """Each text in our code, a line each, with … for what varies."""
    sources = [path.read_text() for path in (ROOT / "decima" / "spark" / "java").rglob("*.java")]
    for package in ("traces", "spark_sim", "decima"):
        for path in (*(ROOT / package).rglob("*.py"), ROOT / "decima_packages.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                parts = node.values if isinstance(node, ast.JoinedStr) else [node]
                texts = [getattr(part, "value", "…") for part in parts]
                sources.append("".join(text if isinstance(text, str) else "…" for text in texts))
    return "\n".join(sources)


def test_messages_that_are_explained_exist() -> None:
    """Those of docs/how-to/troubleshooting.md, of which … stands for what varies."""
    text = (DOCS / "how-to" / "troubleshooting.md").read_text()
    named = [
        quoted.strip("… :;()") for quoted in re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    ]
    assert len(named) > 20
    patterns = {name: re.escape(name).replace("…", "[^\n]*") for name in named}
    assert [
        message for message, pattern in patterns.items() if not re.search(pattern, messages())
    ] == []


def test_every_setting_of_the_plugin_is_in_its_table() -> None:
    """As `Settings.java` knows it; and the table has no other."""
    java = ROOT / "decima" / "spark" / "java" / "plugin" / "Settings.java"
    known = set(re.findall(r'DEFAULTS\.put\("(\w+)"', java.read_text()))
    page = (DOCS / "plugin.md").read_text().partition("## Settings")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert len(known) > 10
    assert {name for name in named if not name.startswith("maxSlots.")} == known


def test_figures_of_the_readme_are_those_of_the_results() -> None:
    """Average JCT and difference in each row of its table; and the baselines' page has the same as
    the network's for the sequences of both.
    """
    readme = (ROOT / "README.md").read_text()
    figure = r"[-+][\d.]+ % \[[^\]]+\]|[\d.]+ s \[[^\]]+\]"
    named = [
        number
        for line in readme.splitlines()
        if line.startswith("| ")
        for number in re.findall(figure, line)
    ]
    results = (DOCS / "results" / "2026-11-network.md").read_text()
    assert len(named) == 6
    assert [name for name in named if name not in results] == []
    page = (DOCS / "results" / "2026-11-policies.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)$", page, re.MULTILINE))
    _, _, of_both = results.partition("## Ten sequences at a lower load")
    table = re.findall(r"^(\w+) {2,}(.* \[.*)$", of_both, re.MULTILINE)
    baselines = [
        (policy, number)
        for policy, line in table
        if policy in HEURISTICS
        for number in re.findall(figure, line)
    ]
    assert len(baselines) > 15
    assert [
        baseline for baseline in baselines if baseline[1] not in rows.get(baseline[0], "")
    ] == []


def test_commands_on_pages_name_policies_that_there_are() -> None:
    """But in the log of the network, whose commands are of older versions."""
    known = {*HEURISTICS, "decima"}
    named = [
        (path.name, name)
        for path in sorted(DOCS.rglob("*.md"))
        if not path.name.endswith("-log.md")
        for names in re.findall(r"--policies ([^\s`]+)", path.read_text())
        for name in names.split(",")
        if re.fullmatch("[a-z_]+", name)  # no file, no variable
    ]
    assert len(named) > 40
    assert [one for one in named if one[1] not in known] == []


def test_settings_of_a_training_named_on_pages_exist() -> None:
    """Where a key of some step stands behind a section: `section.key`."""
    config = TrainConfig().to_json()
    sections = {name: set(one) for name, one in config.items() if isinstance(one, dict)}
    keys = {key for one in sections.values() for key in one}
    assert "learning_rate" in keys
    wrong = [
        (path.name, section, key)
        for path in (DOCS / "training.md", *(DOCS / "how-to").glob("*.md"))
        for section, key in re.findall(r"`([a-z_]+)\.([a-z_]+)[^`]*`", path.read_text())
        if key in keys and key not in sections.get(section, set())
    ]
    assert wrong == []


def test_the_page_of_environments_names_all() -> None:
    """Those of the older systems too, as `gymnasium.make` takes them."""
    page = (DOCS / "environment.md").read_text()
    for path in sorted(ROOT.glob("*/env.py")):
        module = resolve_name(f"{path.parent.name}.env")
        assert module.ENV_ID in page


@pytest.mark.parametrize("page", ["environment.md", "graphs.md"])
def test_the_python_of_a_page_prints_what_it_says(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.DOTALL)
    script = tmp_path / "page.py"
    script.write_text("\n".join(code for code, _ in blocks), encoding="utf-8")
    runpy.run_path(str(script))
    assert len(blocks) >= 3
    assert capsys.readouterr().out == "".join(printed for _, printed in blocks)
