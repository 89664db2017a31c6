"""Error of a damaged or invalid trace."""


class TraceError(ValueError):
    """Error of a trace, or of its file, that breaks a rule.

    Every reader and writer raises it. The message is one line: where the fault is, the value found,
    the rule broken.
    """
