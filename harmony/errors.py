"""Errors of a user of the package. Each message is one line: the value, and the rule."""

from __future__ import annotations

from decima.rl.errors import StudyError


class HarmonyError(StudyError):
    """Settings, a file or a request break a rule."""
