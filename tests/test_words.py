"""The check of the project's words, and that the project passes it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import words


@pytest.mark.parametrize(
    "line",
    [
        "Itself, for observations that point to `trace` from now on: a live one changes.",
        "Of the process that runs now.",
        "Say nothing: a page asks every second.",
        "Each with the name of its files, which another may have too.",
        "By which the stages of a job are ordered: the greatest first.",
        "Of the jar that these sources make.",
        "What was found against strict fair there.",
        "Whether a file is there.",
        "How the readout is trained.",
        "The same of the others.",
        "All that an update needs.",
        "Those of all seeds.",
        "As `WorkerPool.map`.",
        "Nobody need know which Python this is.",
        "Returns the name of the file.",
        "Counts every event of the log.",
    ],
)
def test_openings_that_lean_on_the_name_are_refused(line: str) -> None:
    assert words.opening_fault(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        "Return self, rebound to `trace`.",
        "Process id, or None if not running.",
        "Suppress access logs.",
        "Yield (file stem, figure); stems may repeat.",
        "Sort key of a job's stages, largest first.",
        "Fast path for small graphs, compiled with numba.",
        "Return the jar's file name.",
        "Held-out score of the fitted weights.",
        "Pass the executors on.",
        "Returns of one rollout, and the times of its decisions.",
        "(n, K) inputs of the network.",
        "`Graph`: the network's input for a batch of decisions.",
        "Args:",
    ],
)
def test_verbs_and_noun_phrases_are_accepted(line: str) -> None:
    assert words.opening_fault(line) is None


@pytest.mark.parametrize(
    "text",
    [
        "a learned policy for giants",
        "dear moves from cheap ones",
        "goes on if anything of ours fails",
        "we keep them",
        "policies are told durations",
        "a process says that it ends",
        "predictions are not believed",
        "a folder that nobody else can write",
        "the plan that was kept",
    ],
)
def test_words_of_another_field_are_refused(text: str) -> None:
    assert len(list(words.word_faults(text))) == 1


def test_code_is_no_prose() -> None:
    """Names of settings, code in backticks and the parts of f-strings are not read as words."""
    source = (
        '"""Set `spark.decima.lapse`."""\ntext = f"{kept} files in {our(told)}"  # see `judge`\n'
    )
    assert [fault for _, line in words.prose(source) for fault in words.word_faults(line)] == []
    page = "Use `lapse`, [this](told.md).\n\n```sh\nkept\n```\n\nGiants.\n"
    found = [fault for _, line in words.page_prose(page) for fault in words.word_faults(line)]
    assert len(found) == 1
    assert found[0].startswith("'Giants'")


def test_docstrings_of_a_file_are_found_with_their_lines() -> None:
    source = (
        '"""Module."""\n\n\nclass A:\n    """Class."""\n\n    def b(self):\n        """Method."""\n'
    )
    found = list(words.docstrings(ast.parse(source)))
    assert found == [(1, "Module."), (5, "Class."), (8, "Method.")]


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("es_rule: add `free` feature, reserve 10 % of executors", None),
        ("docs, tests: name every setting", None),
        ("README: name the examples", None),
        ('Revert "es_rule: add `free` feature"', None),
        ("The scoring rule sees what is left free", "no `area: verb effect`"),
        ("docs: what the network reached", "no verb after the area"),
        ("tests: the module is another one", "no verb after the area"),
        ("es_rule: " + "x" * 60, "69 characters, at most 65 are allowed"),
    ],
)
def test_subjects_of_commits(subject: str, fault: str | None) -> None:
    assert words.subject_fault(subject) == fault


def test_a_folder_without_a_repository_has_no_subjects(tmp_path: Path) -> None:
    assert words.subjects(tmp_path) == []
