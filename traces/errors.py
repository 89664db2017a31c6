"""Error of a damaged or invalid trace."""


class TraceError(ValueError):
    """A trace, or a file that should hold one, breaks a rule.

    The message is one line: where the fault is, the value found, the rule broken.
    """
