"""Frozen settings whose simple rules are in their annotations: least and greatest values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, get_args, get_type_hints

from decima.rl.errors import StudyError
from traces.files.numbers import check_numbers

ABOVE_0 = math.nextafter(0.0, 1.0)
"""the least value of a setting that must be above 0"""
BELOW_1 = math.nextafter(1.0, 0.0)
"""the greatest value of a setting that must be below 1"""
ANY = math.inf
"""the greatest value of a setting without a bound"""


class Range(NamedTuple):
    """The least and the greatest value of a setting, in the annotation of its field."""

    least: float
    greatest: float = ANY


AtLeastOne = Annotated[int, Range(1)]
NotNegative = Annotated[int, Range(0)]
Positive = Annotated[float, Range(ABOVE_0)]


class Settings:
    """Base of a frozen dataclass that refuses values outside its ranges."""

    SECTION: ClassVar[str] = ""
    """name of the settings in a file with several sections"""
    ERROR: ClassVar[type[ValueError]] = StudyError

    def __post_init__(self) -> None:
        check_numbers(self, self.ERROR)
        for name, (least, greatest) in _ranges(type(self)).items():  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is None:  # no value is possible
                continue
            label = f"{self.SECTION}.{name}" if self.SECTION else name
            bound = "it must not be negative" if least == 0 else f"at least {_text(least)}"
            if least == ABOVE_0:
                bound = "it must be above 0"
            self.require(value >= least, f"{label} is {value!r:.40}: {bound}")
            bound = "it must be below 1" if greatest == BELOW_1 else f"at most {_text(greatest)}"
            self.require(value <= greatest, f"{label} is {value!r:.40}: {bound}")
        if "final_learning_rate" in self.__dict__:
            first, last = self.__dict__["learning_rate"], self.__dict__["final_learning_rate"]
            self.require(
                0.0 < last <= first,
                f"the learning rate goes from {first} to {last}: it must stay above 0 and not rise",
            )
        self.check()

    def check(self) -> None:
        """Refuse what contradicts itself, beyond the ranges."""

    def require(self, rule: bool, message: str) -> None:
        """Raise an `ERROR` with the message unless the rule holds."""
        if not rule:
            raise self.ERROR(message)

    def to_json(self) -> dict[str, Any]:
        """All settings as plain JSON; `settings.build` reads it."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]


@cache
def _ranges(kind: type) -> Mapping[str, Range]:
    """Ranges in the annotations of a dataclass's fields."""
    hints = get_type_hints(kind, include_extras=True)
    marks = {name: _range_in(hint) for name, hint in hints.items()}
    return {name: mark for name, mark in marks.items() if mark is not None}


def _range_in(hint: Any) -> Range | None:
    parts = (part if isinstance(part, Range) else _range_in(part) for part in get_args(hint))
    return next((part for part in parts if part is not None), None)


def _text(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
