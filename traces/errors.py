"""The one error that every fault of a trace raises."""


class TraceError(ValueError):
    """A trace, or a file that should hold one, breaks a rule.

    The message is one line: where the fault is, the value found, the rule broken.
    """
