"""Frozen settings from what JSON or a command line says: known keys, of their types."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from deeprm.errors import DeepRmError

T = TypeVar("T")

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def build(kind: type[T], table: Mapping[str, Any]) -> T:
    """The settings of the dataclass `kind` that `table` holds; what it leaves out has its default.

    Whole numbers serve as numbers; nothing else is taken for another type.

    Raises:
        DeepRmError: an unknown key, a value of a wrong type, or one that breaks a rule.
    """
    try:
        # As JSON, in which a list is what a tuple is written as.
        found: T = _reader(typing.cast(Any, kind)).validate_json(json.dumps([table], default=str))[
            0
        ]
    except ValidationError as error:
        raise DeepRmError(_words(kind, error)) from error
    return found


@cache
def _reader(kind: Any) -> TypeAdapter[list[Any]]:
    # In a list, since the type of a dataclass itself takes no configuration from outside.
    return TypeAdapter(list[kind], config=_STRICT)


def _words(kind: Any, error: ValidationError) -> str:
    """The first fault: where, the value found, the rule."""
    fault = error.errors()[0]
    where = ".".join(str(key) for key in fault["loc"][1:])
    if fault["type"] == "unexpected_keyword_argument":
        known = ", ".join(entry.name for entry in dataclasses.fields(kind))
        return f"unknown setting {where:.60}; there are {known}"
    if fault["type"] == "value_error":
        return str(fault["ctx"]["error"])
    return f"{where:.60} is {fault['input']!r:.60}: {fault['msg']}"
