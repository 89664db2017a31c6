"""Frozen settings whose simple rules are a table: the least and the greatest value, by name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from decima.rl.errors import StudyError
from traces.files.numbers import check_numbers

ABOVE_0 = math.nextafter(0.0, 1.0)
"""the least value of a setting that must be above 0"""
BELOW_1 = math.nextafter(1.0, 0.0)
"""the greatest value of a setting that must be below 1"""
ANY = math.inf
"""the greatest value of a setting without a bound"""
Ranges = Mapping[str, tuple[float, float]]
"""the least and the greatest value, by name of the setting"""


class Settings:
    """Base of a frozen dataclass that refuses values outside its ranges."""

    RANGES: ClassVar[Ranges] = {}
    """one that is None has no value"""
    SECTION: ClassVar[str] = ""
    """name of the settings in a file with several sections"""
    ERROR: ClassVar[type[ValueError]] = StudyError

    def __post_init__(self) -> None:
        check_numbers(self, self.ERROR)
        for name, (least, greatest) in self.RANGES.items():
            value = getattr(self, name)
            if value is None:
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


def _text(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
