"""Options made from frozen configurations: name, type, choices and default are the field's."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import click

from decima.rl.option_types import SECONDS, Whole

F = TypeVar("F", bound=Callable[..., Any])
_SECONDS = "_s"


def config_options(
    kind: type, types: Mapping[str, click.ParamType[Any]] | None = None, /, **words: str
) -> Callable[[F], F]:
    """Return a decorator that adds an option for each named field of a configuration.

    Args:
        kind: a frozen dataclass. A field `moving_delay_s` becomes `--moving-delay`, and keeps its
            name as the command's argument. One that may be None has no default to show.
        types: click's type by field, where it does not follow from the field's.
        words: help by field, in the order of the command's own help.
    """
    special = types or {}
    own = {field.name: field for field in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    options = [
        _option(own[name], special.get(name) or _click_type(hints[name]), help_)
        for name, help_ in words.items()
    ]
    return lambda command: added(command, *options)


def added(command: F, *options: Callable[[F], F]) -> F:
    """Return the command with these options, in their order."""
    for option in reversed(options):
        command = option(command)
    return command


def _option(field: dataclasses.Field[Any], kind: Any, words: str) -> Callable[[F], F]:
    label = field.name.removesuffix(_SECONDS).replace("_", "-")
    default = None if field.default is dataclasses.MISSING else field.default
    return click.option(
        f"--{label}",
        field.name,
        type=kind,
        default=default,
        show_default=default is not None,
        help=words or None,
    )


def _click_type(hint: Any) -> Any:
    """Return click's type for a field's: no number in a configuration is negative."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(one for one in typing.get_args(hint) if one is not types.NoneType)
    if typing.get_origin(hint) is Literal:
        return click.Choice(typing.get_args(hint))
    return {int: Whole(0), float: SECONDS}.get(hint, hint)
