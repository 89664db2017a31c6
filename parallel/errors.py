"""What can go wrong between us and the processes that work for us."""

from __future__ import annotations


class ClusterError(ValueError):
    """A cluster that cannot be reached, or that is not fit for the work; one line."""
