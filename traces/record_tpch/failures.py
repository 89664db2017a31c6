"""Error message of a failed program, in one line."""

from __future__ import annotations


def last_line(output: str) -> str:
    """Return the last line that is no stack frame, which holds the reason."""
    lines = [line.strip() for line in output.splitlines()]
    telling = [line for line in lines if line and not line.startswith(("at ", "... "))]
    return telling[-1] if telling else "failed without a word"
