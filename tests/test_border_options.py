"""Paths and numbers of every command: refused by the type of the option, before any work."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner, Result

from decima.rl.option_types import (
    InputPath,
    NameOrFile,
    Number,
    OutputFile,
    OutputFolder,
    PathType,
    Whole,
    WordOrWhole,
)
from tests.commands import PROGRAMS, command_at, decima, every_command, one_line

FREE_TEXT = {
    "--allocation", "--application", "--cap", "--classes", "--cluster", "--device", "--gpu",
    "--host", "--listen", "--max-slots",
    "--only", "--policy", "--protocol", "--since", "--title", "--weight", "job",
}  # fmt: skip
"""options whose text names neither a file nor a single number"""


class Given(NamedTuple):
    """One parameter of one command."""

    program: str
    words: tuple[str, ...]
    param: click.Parameter
    place: int
    """among the command's arguments"""

    def __str__(self) -> str:
        return " ".join((self.program, *self.words, self.label))

    @property
    def label(self) -> str:
        return self.param.opts[0]

    def told(self, value: object) -> list[str]:
        """The words that give it a value; arguments before it get one, too, and come last."""
        if isinstance(self.param, click.Option):
            return [self.label, str(value)]
        before = [
            parameter.param.type.choices[0]
            if isinstance(parameter.param.type, click.Choice)
            else "tpch"
            for parameter in EVERY
            if same_command(parameter, self) and isinstance(parameter.param, click.Argument)
        ]
        return ["--", *before[: self.place], str(value)]

    @property
    def suffix(self) -> str:
        if self.label == "--report" or self.words == ("report",):
            return ".html"
        if self.words == ("cluster", "pack"):
            return ".tar.gz"
        return ".parquet" if "import" in self.words and self.program == "decima" else ".png"

    def run(self, *words: str) -> Result:
        """Call the command; what it lacks shows only after what is given has been checked."""
        return CliRunner().invoke(PROGRAMS[self.program], [*self.words, *words])


def every_parameter() -> Iterator[Given]:
    for program, main in PROGRAMS.items():
        for words in every_command(main):
            command = command_at(program, words)
            if not isinstance(command, click.Group):
                arguments = [one for one in command.params if isinstance(one, click.Argument)]
                for param in command.params:
                    place = arguments.index(param) if param in arguments else 0
                    yield Given(program, words, param, place)


def same_command(first: Given, second: Given) -> bool:
    return (first.program, first.words) == (second.program, second.words)


EVERY = list(every_parameter())
PATHS = [one for one in EVERY if isinstance(one.param.type, PathType)]
INPUTS = [one for one in EVERY if isinstance(one.param.type, InputPath | NameOrFile)]
OUTPUTS = [one for one in EVERY if isinstance(one.param.type, OutputFile)]
FOLDERS = [one for one in EVERY if isinstance(one.param.type, OutputFolder)]
NUMBERS = [one for one in EVERY if isinstance(one.param.type, Whole | Number)]


def refused(result: Result, *parts: str) -> None:
    """Refused for what is given, before what is missing."""
    one_line(result, *parts)
    assert "Missing" not in result.stderr


def test_every_option_has_a_type_that_checks() -> None:
    """A path or a number of a new command without one of these types is refused here."""
    numbers = (Whole, WordOrWhole, Number)
    checked = (PathType, NameOrFile, *numbers, click.Choice, click.types.BoolParamType)
    others = {
        str(parameter) for parameter in EVERY if not isinstance(parameter.param.type, checked)
    }
    unchecked = {name for name in others if name.rpartition(" ")[2] not in FREE_TEXT}
    assert unchecked == set()
    assert len(PATHS) > 60
    assert len(NUMBERS) > 80


@pytest.mark.parametrize("given", [*PATHS, *INPUTS], ids=str)
def test_a_name_that_is_empty_or_holds_a_nul_is_refused(
    given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(given.run(*given.told("")), "this one is empty")
    refused(given.run(*given.told("a\0b")), "no file has such a name")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [*INPUTS, *OUTPUTS, *FOLDERS], ids=str)
def test_a_pipe_or_a_device_is_neither_read_nor_written(given: Given, tmp_path: Path) -> None:
    """It keeps its kind and its permissions, and nothing waits for its other end."""
    pipe = tmp_path / "pipe.png.parquet.html"
    os.mkfifo(pipe, 0o640)
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link", Path("/dev/null")):
        before = path.stat()
        value = f"key={path}" if given.label == "--set" else path
        refused(given.run(*given.told(value)))
        after = path.stat()
        assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o640


@pytest.mark.parametrize("given", OUTPUTS, ids=str)
def test_an_output_needs_a_folder(given: Given, tmp_path: Path) -> None:
    refused(given.run(*given.told(tmp_path / "none" / "x.png")), "there is no folder")


@pytest.mark.parametrize("given", FOLDERS, ids=str)
def test_a_folder_below_a_file_is_refused(given: Given, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    refused(given.run(*given.told(tmp_path / "file" / "x" / "y")), "is no folder")
    assert (tmp_path / "file").read_text() == "kept"


PAIRS = [
    (read, written)
    for written in OUTPUTS
    for read in INPUTS
    if same_command(read, written)
    and (not isinstance(read.param.type, InputPath) or read.param.type.file_okay)
]


@pytest.mark.parametrize(
    ("read", "written"), PAIRS, ids=[f"{read} {written.label}" for read, written in PAIRS]
)
def test_no_output_replaces_an_input(read: Given, written: Given, tmp_path: Path) -> None:
    """Whatever way the path is written, and in either order."""
    path = tmp_path / f"file{written.suffix}"
    path.write_text("<allocations/>")
    (tmp_path / "link").symlink_to(path)
    os.link(path, tmp_path / "hard")
    for other in (path.name, f"./{path.name}", "link", "hard"):
        value = f"{tmp_path}/{other}"
        value = f"key={value}" if read.label == "--set" else value
        orders = [(*written.told(path), *read.told(value))]
        if isinstance(read.param, click.Option):
            orders.append((*read.told(value), *written.told(path)))
        for words in orders:
            refused(read.run(*words), "would replace the input", written.label)
    assert path.read_text() == "<allocations/>"
    assert len(list(tmp_path.iterdir())) == 3


TWO = [
    (first, second)
    for place, first in enumerate(OUTPUTS)
    for second in OUTPUTS[place + 1 :]
    if same_command(first, second)
]


@pytest.mark.parametrize(
    ("first", "second"), TWO, ids=[f"{first} {second.label}" for first, second in TWO]
)
def test_no_output_replaces_another(first: Given, second: Given, tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    words = (*first.told(path), *second.told(tmp_path / "." / "x.html"))
    refused(first.run(*words), "two outputs")
    assert list(tmp_path.iterdir()) == []


TREES = [
    (read, written)
    for read, written in PAIRS
    if isinstance(read.param.type, InputPath)
    and read.param.type.dir_okay
    and read.words != ("report",)  # which reads files of known names
]


@pytest.mark.parametrize(
    ("read", "written"), TREES, ids=[f"{read} {written.label}" for read, written in TREES]
)
def test_no_output_replaces_a_file_of_a_folder_that_is_read(
    read: Given, written: Given, tmp_path: Path
) -> None:
    path = tmp_path / f"app-1{written.suffix}"
    path.write_text("kept")
    refused(read.run(*written.told(path), *read.told(tmp_path)), "would replace the input")
    assert [one.read_text() for one in tmp_path.iterdir()] == ["kept"]


def test_rotated_files_of_a_log_replace_no_secret(tmp_path: Path) -> None:
    """LOG.1 is where the log before goes."""
    secret = tmp_path / "log.1"
    secret.write_text("s" * 32)
    words = ("coordinate", "--secret-file", secret, "--decision-log", tmp_path / "log")
    refused(decima(*words), "would replace the input of --secret-file")


def test_files_that_settings_name_are_inputs(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.json"
    trace.write_text("kept")
    settings = tmp_path / "settings.toml"
    settings.write_text(f'[[setting]]\ntrace = "{trace}"\n')
    words = ("fit-rule", "--settings", settings, "--generations", 1, "-o", trace)
    refused(decima(*words), "would replace the input of --settings")
    assert trace.read_text() == "kept"


@pytest.mark.parametrize("given", NUMBERS, ids=str)
def test_a_number_beyond_all_bounds_is_refused(
    given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind: Any = given.param.type
    assert kind.min is not None
    assert kind.max is not None
    for value in ("nan", "inf", "-inf", "-1", "1e308", "9" * 400, ""):
        result = given.run(f"{given.label}={value}")
        refused(result, given.label)
    assert list(tmp_path.iterdir()) == []
