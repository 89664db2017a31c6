"""What is wrong with a log, when something is."""

from __future__ import annotations


class DamageError(Exception):
    """Data that cannot be read; whoever reads the file counts it and keeps the rest."""
