"""Damage of a log, as one line each."""

from __future__ import annotations


class DamageError(Exception):
    """Error of unreadable data; the reader counts it and continues with the rest."""
