"""Frozen settings from a TOML or JSON file, with checks of keys, types and rules.

The rules stand in the settings' own `__post_init__`; types and keys are checked by pydantic.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from traces.files.errors import FileError
from traces.files.names import suggestion
from traces.files.reading import parse_toml

T = TypeVar("T")


def _maybe(value: Any) -> Any:
    # After an own validator pydantic no longer reads JSON, in which a list may be a tuple.
    return None if value == "none" else tuple(value) if isinstance(value, list) else value


Maybe = Annotated[T | None, BeforeValidator(_maybe)]
"""optional setting; TOML has no null, so "none" stands for it"""

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_NEEDED = {
    "bool_type": "true or false",
    "dataclass_type": "a section",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "text",
    "tuple_type": "a list",
}


def build(kind: type[T], table: Mapping[str, Any], refusal: type[ValueError]) -> T:
    """Build the dataclass `kind` from `table`; missing keys have their defaults.

    Integers are accepted as floats; no other types are converted. `refusal` names an unknown key, a
    wrong type, or the rule that a value breaks.
    """
    try:
        # As JSON, in which tuples are lists.
        text = json.dumps([table], default=str)
        settings: T = _reader(typing.cast(Any, kind)).validate_json(text)[0]
    except ValidationError as error:
        raise refusal(_words(kind, error, refusal)) from error
    except (RecursionError, ValueError) as error:  # an integer of absurd length
        raise refusal(f"a setting cannot be read: {error}") from error
    return settings


def changed(
    kind: type[T], table: dict[str, Any], changes: Iterable[str], refusal: type[ValueError]
) -> T:
    """Build the dataclass `kind` from `table` after each `--set KEY=VALUE` of `changes`."""
    for change in changes:
        change_setting(table, change, refusal)
    return build(kind, table, refusal)


def change_setting(table: dict[str, Any], change: str, error: type[ValueError]) -> None:
    """Take one `--set KEY=VALUE`, or SECTION.KEY=VALUE, into a table of settings.

    A value that is no TOML is text, so that words need no quotes.
    """
    label, equals, text = change.partition("=")
    *sections, key = label.strip().split(".")
    if not equals or not key:
        raise error(f"--set {change!r:.60}: expected KEY=VALUE or SECTION.KEY=VALUE")
    try:
        value = parse_toml(f"value = {text}", "--set")["value"]
    except FileError:
        value = text.strip()
    for section in sections:
        inner = table.setdefault(section, {})
        if not isinstance(inner, dict):
            raise error(f"--set {change!r:.60}: {section!r:.60} is no section")
        table = inner
    table[key] = value


@cache
def _reader(kind: Any) -> TypeAdapter[list[Any]]:
    # In a list, since the type of a dataclass itself takes no configuration from outside.
    return TypeAdapter(list[kind], config=_STRICT)


def _words(kind: Any, error: ValidationError, refusal: type[ValueError]) -> str:
    """The first fault: where, the value found, the rule."""
    fault = error.errors()[0]
    path = [str(key) for key in fault["loc"][1:]]
    where = ".".join(path)
    if fault["type"] == "unexpected_keyword_argument":
        section = kind
        for key in path[:-1]:
            section = typing.get_type_hints(section)[key]
        known = ", ".join(entry.name for entry in dataclasses.fields(section))
        return f"unknown setting {where:.60}{suggestion(where, _paths(kind))}; there are {known}"
    if fault["type"] == "value_error":
        rule = fault["ctx"]["error"]
        words = str(rule)
        is_named = isinstance(rule, refusal) and words.startswith(where)
        return words if is_named else f"{where or 'settings'}: {words}"
    needed = _NEEDED.get(fault["type"])
    if fault["type"] == "literal_error":
        needed = f"one of {fault['ctx']['expected']}"
    rule = fault["msg"] if needed is None else f"{needed} is needed"
    return f"{where:.60} is {fault['input']!r:.60}: {rule}"


def _paths(kind: Any) -> Iterator[str]:
    """Every setting by its full name, those of sections too."""
    hints = typing.get_type_hints(kind)
    for entry in dataclasses.fields(kind):
        yield entry.name
        if dataclasses.is_dataclass(hints[entry.name]):
            yield from (f"{entry.name}.{below}" for below in _paths(hints[entry.name]))
