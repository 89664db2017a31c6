"""What `--help` says of every command, and what a shell completes."""

from __future__ import annotations

import re
import shlex

import pytest
from click.testing import CliRunner

from decima.cli.main import SUBCOMMANDS, main
from tests.commands import below, decima, every_command, parsed, python, succeeded
from traces import list_builtin, load_trace


@pytest.mark.parametrize(
    "words", list(every_command(main)), ids=lambda words: " ".join(words) or "decima"
)
def test_help_ends_with_an_example_that_the_command_takes(words: tuple[str, ...]) -> None:
    """It calls this command, or one below it, with arguments and options that it has."""
    result = succeeded(decima(*words, "--help"))
    *_, heading, example = result.output.rstrip().splitlines()
    assert heading.strip() == "Example:"
    assert tuple(shlex.split(example)[1 : len(words) + 1]) == words
    values = parsed(example)
    if values.get("job") is not None and values.get("trace") in list_builtin():
        assert load_trace(values["trace"]).job(values["job"]).name == values["job"]


def test_help_loads_nothing_heavy() -> None:
    """`decima --help` answers before numba, torch or Arrow could be imported."""
    code = (
        "import sys; from click.testing import CliRunner; from decima.cli.main import main; "
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0; "
        "print(sorted({'numba', 'torch', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    output = python("-c", code)
    assert output == "[]\n"


def test_every_command_has_a_line_in_the_help() -> None:
    help_text = decima("--help").output
    assert set(below(main)) == set(SUBCOMMANDS)
    for name, line in SUBCOMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", help_text, re.MULTILINE)


def test_a_shell_completes_subcommands_and_options() -> None:
    """As docs and README say, through click's own completion."""
    for typed, expected in (
        ("decima tra", {"plain,traces", "plain,train"}),
        ("decima tune --pol", {"plain,--policy"}),
    ):
        words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
        asked = {"_DECIMA_COMPLETE": "bash_complete", **words}
        result = CliRunner().invoke(main, [], prog_name="decima", env=asked)
        assert set(result.output.split()) == expected
