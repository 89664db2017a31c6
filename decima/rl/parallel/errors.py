"""Errors of tasks and clusters."""

from __future__ import annotations


class ClusterError(ValueError):
    """A cluster that cannot be used as requested; the message is one line."""


class TaskError(RuntimeError):
    """A task failed, or its process died: the message names the task, the cause the place."""


class WorkerLostError(TaskError):
    """A task's process was killed, or its memory ran out: no fault of the task, and one line."""


class TaskRefusedError(ValueError):
    """A task raised a ValueError: its input breaks a rule. The message is the task's own."""

    def __init__(self, message: str, origin: str) -> None:
        """`origin`: module of the error's class, or where a plain ValueError was raised."""
        super().__init__(message)
        self.origin = origin


def raised_in(error: Exception) -> str:
    """Name of the module whose code raised: that of the innermost frame."""
    module, trace = "", error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return module
