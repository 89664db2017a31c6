"""Errors between the simulator and its callers."""


class SimulationError(ValueError):
    """A setting or a call that the simulator cannot honour; the message is one line."""


class IllegalActionError(SimulationError):
    """A policy chose a stage or a limit that the rules forbid; the message names both."""
