"""Errors between a scheduler and Spark."""

from __future__ import annotations


class AttachError(ValueError):
    """Error of a session or Spark version that cannot be scheduled; one line with the remedy."""


def missing(package: str) -> AttachError:
    """A package of the extra is not there."""
    return AttachError(f"{package} is not installed: pip install 'decima-scheduler[spark]'")
