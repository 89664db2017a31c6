"""Damage of a log, as one line each."""

from __future__ import annotations


class DamageError(Exception):
    """Data that cannot be read; whoever reads the file counts it and keeps the rest."""
