"""What can go wrong between us and Spark."""

from __future__ import annotations


class AttachError(ValueError):
    """This session, or this Spark, cannot be scheduled by us; one line that says what to do."""


def missing(package: str) -> AttachError:
    """A package of the extra is not there."""
    return AttachError(f"{package} is not installed: pip install 'decima-scheduler[spark]'")


class PolicyFaultError(Exception):
    """A policy raised, took too long or answered with what is not allowed. Never leaves us."""
