"""Types of the options of all commands: files to read, files to write, and numbers with bounds.

A value is refused while the command line is parsed, before any work. Paths are remembered during
that, so that no output replaces an input or another output.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from traces.files.errors import FileError
from traces.files.numbers import MAX_COUNT, MAX_TIME_MS
from traces.files.reading import check_regular
from traces.files.writing import check_output, check_output_folder

_NOTED = f"{__name__}.noted"
"""key of the paths of a command line in the context of click"""


class _Noted(NamedTuple):
    """A path of the command line."""

    path: Path
    option: str
    is_output: bool
    is_guarded: bool = False
    """whether it is a folder all of whose files may be read"""


class PathType(click.Path):
    """A path: not empty, and one that a file may have."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(path_type=Path, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        _check_name(os.fsdecode(value))
        return Path(os.fsdecode(super().convert(value, param, ctx)))


class InputPath(PathType):
    """A regular file to read, or a folder of them.

    Args:
        files: whether a file will do.
        folders: whether a folder will do.
        guarded: whether all files in such a folder are inputs, none of which an output replaces.
    """

    def __init__(self, *, files: bool = True, folders: bool = False, guarded: bool = True) -> None:
        super().__init__(exists=True, file_okay=files, dir_okay=folders)
        self._guarded = guarded

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = super().convert(value, param, ctx)
        _note_input(path, param, is_guarded=self._guarded)
        return path


class OutputFile(PathType):
    """A file to write: a free name or a regular file, in a folder that takes files.

    Args:
        folders: whether a folder is possible, which is then not checked further.
        beside: further files that are written or moved with it.
    """

    def __init__(
        self, *, folders: bool = False, beside: Callable[[Path], Iterable[Path]] = lambda _: ()
    ) -> None:
        super().__init__(dir_okay=folders)
        self._beside = beside

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = super().convert(value, param, ctx)
        for output in (path, *self._beside(path)):
            _note(_Noted(output, _label(param), is_output=True))
        if not path.is_dir():
            _checked(check_output, path)
        return path


class OutputFolder(PathType):
    """A folder to write files in, which is made with those above it where it is missing."""

    def __init__(self) -> None:
        super().__init__(file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = super().convert(value, param, ctx)
        _note(_Noted(path, _label(param), is_output=True))
        _checked(check_output_folder, path)
        return path


class NameOrFile(click.types.StringParamType):
    """Text that may name a file to read: a trace, a policy, a setting.

    `parts` are the texts in a value each of which may be a path.
    """

    def __init__(self, parts: Callable[[str], Iterable[str]] = lambda text: (text,)) -> None:
        self._parts = parts

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        _check_name(text.strip())
        for part in self._parts(text):
            if part and os.path.exists(part):
                _note_input(Path(part), param, is_guarded=True)
        return text


class Number(click.FloatRange):
    """A finite number within bounds."""

    def __init__(self, least: float, most: float, *, above: bool = False) -> None:
        """`above`: whether `least` itself is refused."""
        super().__init__(least, most, min_open=above)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):  # no comparison with the bounds refuses NaN
            self.fail(f"{value!r} is no finite number", param, ctx)
        return number


class Whole(click.IntRange):
    """A whole number within bounds."""

    def __init__(self, least: int, most: int = MAX_COUNT) -> None:
        super().__init__(least, most)


class WordOrWhole(click.types.StringParamType):
    """A word, or a whole number within bounds."""

    def __init__(self, word: str, least: int, most: int = MAX_COUNT) -> None:
        self._word = word
        self._number = Whole(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == self._word:
            return self._word
        try:
            return self._number.convert(value, param, ctx)
        except click.BadParameter:
            least = f"{self._number.min} or more"
            self.fail(f"{value!r:.40} must be {self._word} or a whole number, {least}", param, ctx)


SEED = Whole(0)
SECONDS = Number(0.0, MAX_TIME_MS / 1000)
MINUTES = Number(0.0, 1e7, above=True)
"""of a limit on the time of work: up to 19 years"""
INPUT = InputPath()
INPUT_FOLDER = InputPath(files=False, folders=True, guarded=False)
INPUT_TREE = InputPath(folders=True)
OUTPUT = OutputFile()
FOLDER = OutputFolder()
NAME_OR_FILE = NameOrFile()


def names_in(text: str) -> Iterator[str]:
    """Yield what of a list of names, separated by commas, may be a path.

    A colon and a word may follow a path: ``model.safetensors:sampled``, ``policy.py:CLASS``.
    """
    for name in text.split(","):
        yield name.strip()
        yield name.strip().rpartition(":")[0]


POLICIES = NameOrFile(names_in)
SETTING = NameOrFile(lambda text: (text.partition("=")[2].strip().strip("\"'"),))
"""KEY=VALUE"""


def note_inputs(option: str, paths: Iterable[str | Path]) -> None:
    """Refuse (UsageError) outputs of the current command that would replace files it reads.

    For files that a file of settings names, which the command line does not show.
    """
    for path in map(Path, paths):
        if os.path.exists(path):
            _note(_Noted(path, option, is_output=False, is_guarded=True))


def _check_name(text: str) -> None:
    if not text:
        raise click.BadParameter("a name is needed, this one is empty")
    if "\0" in text:
        raise click.BadParameter(f"{text!r:.100}: no file has such a name")


def _checked(check: Callable[[Path], None], path: Path) -> None:
    try:
        check(path)
    except FileError as error:
        raise click.BadParameter(str(error)) from error


def _note_input(path: Path, param: click.Parameter | None, *, is_guarded: bool) -> None:
    if not path.is_dir():
        _checked(check_regular, path)
    _note(_Noted(path, _label(param), is_output=False, is_guarded=is_guarded))
    if path.suffix == ".safetensors":  # a model's card lies beside it
        _note(_Noted(path.with_suffix(".json"), _label(param), is_output=False))


def _note(new: _Noted) -> None:
    """Remember a path, after comparing it with those before it."""
    context = click.get_current_context(silent=True)
    if context is None:
        return
    noted: list[_Noted] = context.meta.setdefault(_NOTED, [])
    for old in noted:
        if not (new.is_output or old.is_output):
            continue
        output, other = (new, old) if new.is_output else (old, new)
        if other.is_output and _is_same(output.path, other.path):
            raise click.BadParameter(
                f"{output.path} is given for two outputs, {old.option} and {new.option}: give each "
                "its own name",
                context,
            )
        if not other.is_output and _replaces(output.path, other):
            raise click.BadParameter(
                f"{output.path}, of {output.option}, would replace the input of {other.option}: "
                "give the output another name",
                context,
            )
    noted.append(new)


def _replaces(output: Path, given: _Noted) -> bool:
    """Return whether writing `output` may change an input."""
    if _is_same(output, given.path):
        return not output.is_dir()
    if not (given.is_guarded and given.path.is_dir() and os.path.lexists(output)):
        return False
    return Path(os.path.realpath(output.parent)).is_relative_to(os.path.realpath(given.path))


def _is_same(first: Path, second: Path) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:  # at least one is missing
        return os.path.realpath(first) == os.path.realpath(second)


def _label(param: click.Parameter | None) -> str:
    if param is None:
        return "this command"
    return param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
