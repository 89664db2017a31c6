"""Errors between the simulator and its callers."""


class SimulationError(ValueError):
    """Error of a setting or a call that breaks a rule; the message is one line."""


class IllegalActionError(SimulationError):
    """Error of an action that the rules forbid; the message names stage and limit."""
