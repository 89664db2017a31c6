"""Errors of a user's input. Each message is one line that names the value and the rule."""

from __future__ import annotations


class ConfigError(ValueError):
    """A setting that contradicts another or a rule."""


class PolicyError(ValueError):
    """A policy that does not exist, or a parameter that it does not have."""
